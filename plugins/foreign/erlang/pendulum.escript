#!/usr/bin/env escript
%% Play the reference pendulum with nothing but Erlang: a socket, ZMTP, msgpack, and what PROTOCOL.md says.
-define(HELLO, 1). -define(CALL, 3). -define(REPLY, 4). -define(ERROR, 5). -define(BEAT, 8). -define(BYE, 10).

main(_) ->
    os:getenv("GANGLION_SERVER_KEY") =:= false orelse stop("CURVE is not spoken here"),
    Socket = connect(env("GANGLION_ENDPOINT")),
    Silence = list_to_integer(os:getenv("GANGLION_SILENCE_MS", "10000")),
    Greeting = <<16#FF, 0:56, 1, 16#7F, 3, 0, "NULL", 0:(48 * 8)>>,
    Ready = <<4, 28, 5, "READY", 11, "Socket-Type", 6:32, "DEALER">>,
    ok = gen_tcp:send(Socket, [Greeting, Ready]),
    say(Socket, <<>>, [?HELLO, 1], #{<<"version">> => 1, <<"role">> => <<"environment">>,
        <<"name">> => env("GANGLION_NAME"), <<"token">> => env("GANGLION_TOKEN"), <<"language">> => <<"erlang">>}),
    take(Socket, 64, Silence),
    serve(Socket, Silence, {none, none}, stopped).

serve(Socket, Silence, {Asked, Kept}, World) ->
    Frames = [From, Packed | Rest] = message(Socket, Silence),
    {[Verb, Serial | More], <<>>} = unpack(Packed),
    Call = case More of [Name | _] when is_binary(Name) -> Name; _ -> <<>> end,
    case Verb of
        ?CALL when Frames =:= Asked ->  % it comes again: it gets the same answer, without another step
            say(Socket, From, Kept),
            serve(Socket, Silence, {Asked, Kept}, World);
        ?CALL ->
            {Answer, Next} = answered(Call, Serial, Rest, World),
            say(Socket, From, Answer),
            serve(Socket, Silence, {Frames, Answer}, Next);
        ?BEAT ->  % what it got, sent back, as with BYE
            say(Socket, From, [?BEAT, Serial], #{}),
            serve(Socket, Silence, {Asked, Kept}, World);
        ?BYE ->
            say(Socket, From, [?BYE, Serial], #{}),
            gen_tcp:close(Socket);
        ?ERROR ->
            {#{<<"message">> := Text}, _} = unpack(hd(Rest)),
            stop(["the kernel ends the connection: ", Text]);
        _ -> serve(Socket, Silence, {Asked, Kept}, World)
    end.

answered(Call, Serial, Rest, World) ->
    try
        {Body, <<>>} = case Rest of [Data | _] when Data =/= <<>> -> unpack(Data); _ -> {#{}, <<>>} end,
        {Answer, Next} = answer(Call, Body, World),
        {{[?REPLY, Serial], Answer}, Next}
    catch
        _:Why ->
            Text = unicode:characters_to_binary(io_lib:format("~ts: ~0p", [Call, Why])),
            {{[?ERROR, Serial], #{<<"kind">> => <<"protocol">>, <<"message">> => Text}}, World}
    end.

%% -- the pendulum: + - * / only, each line evaluated as written, so that every language gets the same bits
answer(<<"environment.start">>, Body, _) ->
    World = begun(Body),
    Sensors = [<<"cos: Box(-1.01, 1.01)">>, <<"sin: Box(-1.01, 1.01)">>, <<"speed: Box(-8, 8)">>],
    {(state(World, [<<"balance: Box(-11, 1)">>]))#{<<"sensors">> => Sensors, <<"actuators">> => [<<"torque: Box(-2, 2)">>]}, World};
answer(<<"environment.reset">>, Body, _) ->
    World = begun(Body),
    {state(World, []), World};
answer(<<"environment.update">>, #{<<"setpoints">> := [[Torque]]}, {C, S, Before, Steps}) ->
    U = min(max(Torque, -2.0), 2.0),
    Faster = Before + (15.0 * S + 3.0 * U) * 0.05,
    W = min(max(Faster, -8.0), 8.0),
    K = W * 0.025,
    Q = 1.0 + K * K,
    P = 1.0 - K * K,
    Next = {(P * C - 2.0 * K * S) / Q, (P * S + 2.0 * K * C) / Q, W, Steps + 1},
    Reward = -(2.0 * (1.0 - element(1, Next)) + 0.1 * W * W + 0.001 * U * U),
    {state(Next, [[Reward]]), Next};
answer(<<"environment.shutdown">>, _, _) -> {#{}, stopped}.

begun(#{<<"seed">> := Seed}) when is_integer(Seed) ->
    First = draw(1 + Seed rem 2147483646),
    Second = draw(First),
    T = value(Second),
    Q = 1.0 + T * T,
    {(T * T - 1.0) / Q, 2.0 * T / Q, value(draw(Second)), 0}.

draw(X) -> 16807 * X rem 2147483647.
value(X) -> 2.0 * X / 2147483647 - 1.0.
state({C, S, W, Steps}, Rewards) ->
    #{<<"readings">> => [[C, S, W]], <<"rewards">> => Rewards, <<"ticks">> => Steps, <<"truncated">> => Steps =:= 200}.

%% -- ZMTP: every frame but the last has the flag 1, a frame above 255 bytes the flag 2, a command the flag 4
connect("ipc://" ++ Path) -> connected(gen_tcp:connect({local, Path}, 0, [binary, {active, false}]));
connect("tcp://" ++ Place) ->
    [Host, Port] = string:split(Place, ":", trailing),
    connected(gen_tcp:connect(Host, list_to_integer(Port), [binary, {active, false}, {nodelay, true}]));
connect(Endpoint) when is_binary(Endpoint) -> connect(binary_to_list(Endpoint)).

connected({ok, Socket}) -> Socket;
connected({error, Why}) -> stop(io_lib:format("the kernel cannot be reached: ~p", [Why])).

say(Socket, To, {Head, Body}) -> say(Socket, To, Head, Body).
say(Socket, To, Head, Body) ->
    gen_tcp:send(Socket, [frame(1, To), frame(1, iolist_to_binary(pack(Head))), frame(0, iolist_to_binary(pack(Body)))]).

frame(More, Data) when byte_size(Data) < 256 -> [More, byte_size(Data), Data];
frame(More, Data) -> [More bor 2, <<(byte_size(Data)):64>>, Data].

message(Socket, Silence) ->
    <<Flags>> = take(Socket, 1, Silence),
    Size = take(Socket, case Flags band 2 of 0 -> 1; 2 -> 8 end, Silence),
    Data = take(Socket, binary:decode_unsigned(Size), Silence),
    case Flags of
        _ when Flags band 4 =/= 0 -> message(Socket, Silence);
        _ when Flags band 1 =/= 0 -> [Data | message(Socket, Silence)];
        _ -> [Data]
    end.

take(_, 0, _) -> <<>>;
take(Socket, Size, Silence) ->
    case gen_tcp:recv(Socket, Size, Silence) of
        {ok, Data} -> Data;
        {error, timeout} -> stop(io_lib:format("the kernel has been silent for ~b ms", [Silence]));
        {error, _} -> stop("the kernel has gone")
    end.

%% -- msgpack
pack(true) -> 16#C3;
pack(false) -> 16#C2;
pack(N) when is_integer(N), N >= 0, N < 128 -> N;
pack(N) when is_integer(N), N >= 0 -> <<16#CF, N:64>>;
pack(N) when is_integer(N) -> <<16#D3, N:64>>;
pack(F) when is_float(F) -> <<16#CB, F:64/float>>;
pack(Text) when is_binary(Text) -> [<<16#DA, (byte_size(Text)):16>>, Text];
pack(List) when is_list(List) -> [<<16#DC, (length(List)):16>> | [pack(One) || One <- List]];
pack(Map) -> [<<16#DE, (map_size(Map)):16>> | [[pack(Key), pack(Value)] || {Key, Value} <- maps:to_list(Map)]].

unpack(<<0:1, N:7, Rest/binary>>) -> {N, Rest};
unpack(<<2#111:3, N:5, Rest/binary>>) -> {N - 32, Rest};
unpack(<<2#101:3, Size:5, Text:Size/binary, Rest/binary>>) -> {Text, Rest};
unpack(<<2#1001:4, Size:4, Rest/binary>>) -> list(Size, Rest, []);
unpack(<<2#1000:4, Size:4, Rest/binary>>) -> map(Size, Rest, #{});
unpack(<<16#C0, Rest/binary>>) -> {nil, Rest};
unpack(<<16#C2, Rest/binary>>) -> {false, Rest};
unpack(<<16#C3, Rest/binary>>) -> {true, Rest};
unpack(<<Type, Size, Data:Size/binary, Rest/binary>>) when Type =:= 16#C4; Type =:= 16#D9 -> {Data, Rest};
unpack(<<Type, Size:16, Data:Size/binary, Rest/binary>>) when Type =:= 16#C5; Type =:= 16#DA -> {Data, Rest};
unpack(<<Type, Size:32, Data:Size/binary, Rest/binary>>) when Type =:= 16#C6; Type =:= 16#DB -> {Data, Rest};
unpack(<<16#CA, F:32/float, Rest/binary>>) -> {F, Rest};
unpack(<<16#CB, F:64/float, Rest/binary>>) -> {F, Rest};
unpack(<<16#CA, _:32, Rest/binary>>) -> {not_finite, Rest};
unpack(<<16#CB, _:64, Rest/binary>>) -> {not_finite, Rest};
unpack(<<16#CC, N:8, Rest/binary>>) -> {N, Rest};
unpack(<<16#CD, N:16, Rest/binary>>) -> {N, Rest};
unpack(<<16#CE, N:32, Rest/binary>>) -> {N, Rest};
unpack(<<16#CF, N:64, Rest/binary>>) -> {N, Rest};
unpack(<<16#D0, N:8/signed, Rest/binary>>) -> {N, Rest};
unpack(<<16#D1, N:16/signed, Rest/binary>>) -> {N, Rest};
unpack(<<16#D2, N:32/signed, Rest/binary>>) -> {N, Rest};
unpack(<<16#D3, N:64/signed, Rest/binary>>) -> {N, Rest};
unpack(<<16#DC, Size:16, Rest/binary>>) -> list(Size, Rest, []);
unpack(<<16#DD, Size:32, Rest/binary>>) -> list(Size, Rest, []);
unpack(<<16#DE, Size:16, Rest/binary>>) -> map(Size, Rest, #{});
unpack(<<16#DF, Size:32, Rest/binary>>) -> map(Size, Rest, #{}).

list(0, Rest, Found) -> {lists:reverse(Found), Rest};
list(Size, Data, Found) -> {One, Rest} = unpack(Data), list(Size - 1, Rest, [One | Found]).
map(0, Rest, Found) -> {Found, Rest};
map(Size, Data, Found) -> {Key, More} = unpack(Data), {Value, Rest} = unpack(More), map(Size - 1, Rest, Found#{Key => Value}).

env(Name) -> case os:getenv(Name) of false -> stop([Name, " is not set"]); Text -> unicode:characters_to_binary(Text) end.
stop(Text) -> io:format(standard_error, "pendulum: ~ts~n", [Text]), halt(1).
