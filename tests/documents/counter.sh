#!/bin/sh
# An environment in a shell script: `command: [sh, counter.sh]` with `speaks: lines`.
# It adds the setpoint `push` (0, 1 or 2) to a count; the episode ends at 10, or with the step that `params.limit` says.
count=0
step=0
limit=100
readings() { printf '"readings": {"count": %d}' "$count"; }
while read -r line; do
    case $line in
    *'"call": "start"'*)
        case $line in *'"limit": '*) limit=${line##*'"limit": '}; limit=${limit%%[!0-9]*} ;; esac
        printf '{"sensors": ["count: Discrete(13)"], "actuators": ["push: Discrete(3)"], '
        printf '"rewards": ["left: Box(-3, 10)"], %s}\n' "$(readings)" ;;
    *'"call": "reset"'*)
        count=0 step=0
        printf '{%s}\n' "$(readings)" ;;
    *'"call": "update"'*)
        case $line in *'"push": '*) push=${line##*'"push": '}; count=$((count + ${push%%[!0-9]*})) ;; esac
        step=$((step + 1)) done=false truncated=false
        if [ "$count" -ge 10 ]; then done=true; elif [ "$step" -ge "$limit" ]; then truncated=true; fi
        printf '{%s, "rewards": {"left": %d}, ' "$(readings)" $((10 - count))
        printf '"terminated": %s, "truncated": %s}\n' "$done" "$truncated" ;;
    *) printf '{"error": "it does not know this call"}\n' ;;
    esac
done
