#!/usr/bin/env escript
%% The environment of counter.sh in Erlang: `command: [escript, counter.escript]` with `speaks: lines`.
main(_) -> loop({0, 0, 100}).

loop(State) ->
    case io:get_line("") of
        Line when is_list(Line) ->
            {Answer, Next} = answer(found("\"call\": *\"([a-z]+)\"", Line, ""), Line, State),
            io:put_chars([Answer, $\n]),
            loop(Next);
        _ -> ok
    end.

answer("start", Line, {Count, Step, _}) ->
    {["{\"sensors\": [\"count: Discrete(13)\"], \"actuators\": [\"push: Discrete(3)\"], ",
      "\"rewards\": [\"left: Box(-3, 10)\"], ", readings(Count), "}"], {Count, Step, number("limit", Line, 100)}};
answer("reset", _, {_, _, Limit}) -> {["{", readings(0), "}"], {0, 0, Limit}};
answer("update", Line, {Before, Steps, Limit}) ->
    {Count, Step} = {Before + number("push", Line, 0), Steps + 1},
    Ended = Count >= 10,
    Rest = io_lib:format(", \"rewards\": {\"left\": ~b}, \"terminated\": ~s, \"truncated\": ~s}",
                         [10 - Count, Ended, not Ended andalso Step >= Limit]),
    {["{", readings(Count), Rest], {Count, Step, Limit}};
answer(_, _, State) -> {"{\"error\": \"it does not know this call\"}", State}.

readings(Count) -> io_lib:format("\"readings\": {\"count\": ~b}", [Count]).
number(Key, Line, Default) -> case found("\"" ++ Key ++ "\": *([0-9]+)", Line, none) of none -> Default; Digits -> list_to_integer(Digits) end.
found(Pattern, Line, Default) ->
    case re:run(Line, Pattern, [{capture, [1], list}]) of {match, [Text]} -> Text; nomatch -> Default end.
