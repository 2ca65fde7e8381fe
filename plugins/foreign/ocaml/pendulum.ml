(* Play the reference pendulum with nothing but OCaml: a socket, ZMTP, msgpack, and what PROTOCOL.md says. *)
type value = Nil | Bool of bool | Int of int | Float of float | Text of string | List of value list | Map of (value * value) list

exception Wrong of string

let stop text = prerr_endline ("pendulum: " ^ text); exit 1
let env name = try Sys.getenv name with Not_found -> stop (name ^ " is not set")

(* -- msgpack *)
let rec pack out = function
  | Nil -> Buffer.add_uint8 out 0xc0
  | Bool b -> Buffer.add_uint8 out (if b then 0xc3 else 0xc2)
  | Int n when n >= 0 && n < 128 -> Buffer.add_uint8 out n
  | Int n -> Buffer.add_uint8 out 0xd3; Buffer.add_int64_be out (Int64.of_int n)
  | Float f -> Buffer.add_uint8 out 0xcb; Buffer.add_int64_be out (Int64.bits_of_float f)
  | Text t -> Buffer.add_uint8 out 0xda; Buffer.add_uint16_be out (String.length t); Buffer.add_string out t
  | List l -> Buffer.add_uint8 out 0xdc; Buffer.add_uint16_be out (List.length l); List.iter (pack out) l
  | Map m ->
    Buffer.add_uint8 out 0xde; Buffer.add_uint16_be out (List.length m);
    List.iter (fun (k, v) -> pack out k; pack out v) m

let packed value = let out = Buffer.create 256 in pack out value; Buffer.contents out

let unpack data =
  let at = ref 0 in
  let skip n = let place = !at in at := place + n; if !at > String.length data then raise (Wrong "it ends too early"); place in
  let u8 () = Char.code data.[skip 1] and u16 () = String.get_uint16_be data (skip 2) in
  let u32 () = Int32.to_int (String.get_int32_be data (skip 4)) land 0xffffffff in
  let text n = let place = skip n in Text (String.sub data place n) in
  let rec value () = match u8 () with
    | n when n < 0x80 -> Int n
    | n when n < 0x90 -> map (n land 15)
    | n when n < 0xa0 -> list (n land 15)
    | n when n < 0xc0 -> text (n land 31)
    | 0xc0 -> Nil | 0xc2 -> Bool false | 0xc3 -> Bool true
    | 0xc4 | 0xd9 -> text (u8 ()) | 0xc5 | 0xda -> text (u16 ()) | 0xc6 | 0xdb -> text (u32 ())
    | 0xca -> Float (Int32.float_of_bits (String.get_int32_be data (skip 4)))
    | 0xcb -> Float (Int64.float_of_bits (String.get_int64_be data (skip 8)))
    | 0xcc -> Int (u8 ()) | 0xcd -> Int (u16 ()) | 0xce -> Int (u32 ())
    | 0xcf | 0xd3 -> Int (Int64.to_int (String.get_int64_be data (skip 8)))
    | 0xd0 -> Int (String.get_int8 data (skip 1)) | 0xd1 -> Int (String.get_int16_be data (skip 2))
    | 0xd2 -> Int (Int32.to_int (String.get_int32_be data (skip 4)))
    | 0xdc -> list (u16 ()) | 0xdd -> list (u32 ()) | 0xde -> map (u16 ()) | 0xdf -> map (u32 ())
    | n when n >= 0xe0 -> Int (n - 256)
    | n -> raise (Wrong (Printf.sprintf "expected msgpack, found the byte 0x%02x" n))
  and some : 'a. int -> (unit -> 'a) -> 'a list = fun n one ->
    if n > String.length data then raise (Wrong "it claims more than it has");
    List.rev (List.fold_left (fun found _ -> one () :: found) [] (List.init n Fun.id))
  and list n = List (some n value)
  and map n = Map (some n (fun () -> let key = value () in (key, value ()))) in
  let found = value () in
  if !at < String.length data then raise (Wrong "it goes on behind its end");
  found

let field name = function Map m -> List.assoc_opt (Text name) m | _ -> raise (Wrong "body: expected a map")

(* -- ZMTP: every frame but the last has the flag 1, a frame above 255 bytes the flag 2, a command the flag 4 *)
let silence_ms = int_of_string (Option.value (Sys.getenv_opt "GANGLION_SILENCE_MS") ~default:"10000")

let connect endpoint =
  let family, place =
    if String.length endpoint > 6 && String.sub endpoint 0 6 = "ipc://" then
      (Unix.PF_UNIX, Unix.ADDR_UNIX (String.sub endpoint 6 (String.length endpoint - 6)))
    else
      let colon = String.rindex endpoint ':' in
      let host = String.sub endpoint 6 (colon - 6) and port = String.sub endpoint (colon + 1) (String.length endpoint - colon - 1) in
      (Unix.PF_INET, Unix.ADDR_INET ((Unix.gethostbyname host).Unix.h_addr_list.(0), int_of_string port)) in
  let socket = Unix.socket family Unix.SOCK_STREAM 0 in
  (try Unix.connect socket place with Unix.Unix_error (e, _, _) -> stop ("the kernel cannot be reached: " ^ Unix.error_message e));
  if family = Unix.PF_INET then Unix.setsockopt socket Unix.TCP_NODELAY true;
  Unix.setsockopt_float socket Unix.SO_RCVTIMEO (float_of_int silence_ms /. 1000.0);
  socket

let write socket data =
  let sent = ref 0 in
  while !sent < String.length data do sent := !sent + Unix.write_substring socket data !sent (String.length data - !sent) done

let take socket size =
  let data = Bytes.create size and got = ref 0 in
  while !got < size do
    match Unix.read socket data !got (size - !got) with
    | 0 -> stop "the kernel has gone"
    | n -> got := !got + n
    | exception Unix.Unix_error ((Unix.EAGAIN | Unix.EWOULDBLOCK), _, _) ->
      stop (Printf.sprintf "the kernel has been silent for %d ms" silence_ms)
    | exception Unix.Unix_error (_, _, _) -> stop "the kernel has gone"
  done;
  Bytes.to_string data

let say socket frames =
  let out = Buffer.create 512 and last = List.length frames - 1 in
  List.iteri (fun n frame ->
      let more = if n < last then 1 else 0 and size = String.length frame in
      if size < 256 then (Buffer.add_uint8 out more; Buffer.add_uint8 out size)
      else (Buffer.add_uint8 out (more lor 2); Buffer.add_int64_be out (Int64.of_int size));
      Buffer.add_string out frame) frames;
  write socket (Buffer.contents out)

let rec message socket =
  let flags = Char.code (take socket 1).[0] in
  let size = if flags land 2 = 0 then Char.code (take socket 1).[0] else Int64.to_int (String.get_int64_be (take socket 8) 0) in
  let data = take socket size in
  if flags land 4 <> 0 then message socket else if flags land 1 <> 0 then data :: message socket else [data]

(* -- the pendulum: + - * / only, each line evaluated as written, so that every language gets the same bits *)
let c = ref 1.0 and s = ref 0.0 and w = ref 0.0 and steps = ref (-1) and x = ref 1

let draw () = x := 16807 * !x mod 2147483647; 2.0 *. float_of_int !x /. 2147483647.0 -. 1.0

let start body =
  (match field "seed" body with Some (Int seed) -> x := 1 + seed mod 2147483646 | _ -> raise (Wrong "seed: expected an integer"));
  ignore (draw ());
  let t = draw () in
  let q = 1.0 +. t *. t in
  c := (t *. t -. 1.0) /. q; s := 2.0 *. t /. q; w := draw (); steps := 0

let advance torque =
  let u = Float.min (Float.max torque (-2.0)) 2.0 in
  let faster = !w +. (15.0 *. !s +. 3.0 *. u) *. 0.05 in
  w := Float.min (Float.max faster (-8.0)) 8.0;
  let k = !w *. 0.025 in
  let q = 1.0 +. k *. k and p = 1.0 -. k *. k in
  let c', s' = ((p *. !c -. 2.0 *. k *. !s) /. q, (p *. !s +. 2.0 *. k *. !c) /. q) in
  c := c'; s := s'; incr steps;
  -.(2.0 *. (1.0 -. !c) +. 0.1 *. !w *. !w +. 0.001 *. u *. u)

let map fields = Map (List.map (fun (name, value) -> (Text name, value)) fields)
let texts all = List (List.map (fun text -> Text text) all)
let state rewards more =
  map (["readings", List [List [Float !c; Float !s; Float !w]]; "rewards", rewards; "ticks", Int !steps; "truncated", Bool (!steps = 200)] @ more)

let torque body = match field "setpoints" body with
  | Some (List [List [Int n]]) -> float_of_int n
  | Some (List [List [Float f]]) -> f
  | _ -> raise (Wrong "setpoints: expected one row of one number")

let answer call body = match call with
  | "environment.start" ->
    start body;
    let sensors = texts ["cos: Box(-1.01, 1.01)"; "sin: Box(-1.01, 1.01)"; "speed: Box(-8, 8)"] in
    state (texts ["balance: Box(-11, 1)"]) ["sensors", sensors; "actuators", texts ["torque: Box(-2, 2)"]]
  | "environment.reset" -> start body; state (List []) []
  | "environment.update" when !steps >= 0 ->
    let reward = advance (torque body) in
    state (List [List [Float reward]]) []
  | "environment.shutdown" -> Map []
  | _ -> raise (Wrong "a call that is unknown, or not to be expected")

let answered call serial rest =
  let error text = [packed (List [Int 5; Int serial]); packed (map ["kind", Text "protocol"; "message", Text (String.escaped (call ^ ": " ^ text))])] in
  match answer call (match rest with data :: _ when data <> "" -> unpack data | _ -> Map []) with
  | body -> [packed (List [Int 4; Int serial]); packed body]
  | exception Wrong text -> error text

let () =
  if Sys.getenv_opt "GANGLION_SERVER_KEY" <> None then stop "CURVE is not spoken here";
  let socket = connect (env "GANGLION_ENDPOINT") in
  write socket ("\xff" ^ String.make 7 '\000' ^ "\x01\x7f\x03\x00NULL" ^ String.make 48 '\000');
  write socket "\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER";
  let hello = ["version", Int 1; "role", Text "environment"; "name", Text (env "GANGLION_NAME"); "token", Text (env "GANGLION_TOKEN"); "language", Text "ocaml"] in
  say socket [""; packed (List [Int 1; Int 1]); packed (map hello)];
  ignore (take socket 64);
  let rec serve asked kept =
    let frames = message socket in
    let from, head, rest = match frames with from :: head :: rest -> (from, head, rest) | _ -> stop "expected a head" in
    let verb, serial, call = match unpack head with
      | List (Int verb :: Int serial :: Text call :: _) -> (verb, serial, call)
      | List (Int verb :: Int serial :: _) -> (verb, serial, "")
      | _ -> stop "expected a head" in
    match verb with
    | 3 ->
      let kept = if frames = asked then kept else answered call serial rest in (* it comes again: the same answer *)
      say socket (from :: kept); serve frames kept
    | 8 -> say socket frames; serve asked kept (* what it got, sent back, as with BYE *)
    | 10 -> say socket frames; Unix.close socket
    | 5 -> stop ("the kernel ends the connection: " ^ match rest with body :: _ -> (match field "message" (unpack body) with Some (Text t) -> t | _ -> "") | [] -> "")
    | _ -> serve asked kept in
  serve [] []
