(* The environment of counter.sh in OCaml: `command: [ocaml, str.cma, counter.ml]` with `speaks: lines`. *)
let find key line = (* the number behind "key": *)
  let pattern = Str.regexp ("\"" ^ key ^ "\": *\\([0-9]+\\)") in
  try ignore (Str.search_forward pattern line 0); Some (int_of_string (Str.matched_group 1 line)) with Not_found -> None
let called line =
  let pattern = Str.regexp "\"call\": *\"\\([a-z]+\\)\"" in
  try ignore (Str.search_forward pattern line 0); Str.matched_group 1 line with Not_found -> ""
let count = ref 0 and step = ref 0 and limit = ref 100
let readings () = Printf.sprintf "\"readings\": {\"count\": %d}" !count
let answer line = match called line with
  | "start" ->
    limit := Option.value (find "limit" line) ~default:100;
    Printf.sprintf "{\"sensors\": [\"count: Discrete(13)\"], \"actuators\": [\"push: Discrete(3)\"], \
      \"rewards\": [\"left: Box(-3, 10)\"], %s}" (readings ())
  | "reset" -> count := 0; step := 0; Printf.sprintf "{%s}" (readings ())
  | "update" ->
    count := !count + Option.value (find "push" line) ~default:0;
    incr step;
    let ended = !count >= 10 in
    Printf.sprintf "{%s, \"rewards\": {\"left\": %d}, \"terminated\": %b, \"truncated\": %b}"
      (readings ()) (10 - !count) ended (not ended && !step >= !limit)
  | _ -> "{\"error\": \"it does not know this call\"}"
let () = try while true do print_endline (answer (read_line ())) done with End_of_file -> ()
