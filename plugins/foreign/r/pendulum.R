# Play the reference pendulum with pbdZMQ and a msgpack codec of its own: join, declare, reset, update, leave.
suppressPackageStartupMessages(library(pbdZMQ, quietly = TRUE))

HELLO <- 1; CALL <- 3; REPLY <- 4; ERROR <- 5; BEAT <- 8; BYE <- 10

# -- msgpack: a list with names is a map, one without an array; numbers are doubles, whole() marks integers -----------
whole <- function(value) structure(value, class = "whole")

put_size <- function(size, small, most, tag) {
    if (size < most) as.raw(small + size) else c(as.raw(tag), as.raw(c(size %/% 256, size %% 256)))
}

pack <- function(value) {
    if (inherits(value, "whole")) {
        high <- unclass(value) %/% 2^32
        bytes <- writeBin(as.integer(c(signed(high), signed(unclass(value) %% 2^32))), raw(), endian = "big")
        c(as.raw(0xcf), bytes)
    } else if (is.list(value) && !is.null(names(value))) {
        pairs <- Map(function(key, element) c(pack(key), pack(element)), names(value), value)
        c(put_size(length(value), 0x80, 16, 0xde), unlist(pairs, use.names = FALSE))
    } else if (is.list(value)) {
        c(put_size(length(value), 0x90, 16, 0xdc), unlist(lapply(value, pack), use.names = FALSE))
    } else if (is.logical(value)) {
        as.raw(if (value) 0xc3 else 0xc2)
    } else if (is.character(value)) {
        text <- charToRaw(enc2utf8(value))
        c(put_size(length(text), 0xa0, 32, 0xda), text)
    } else {
        c(as.raw(0xcb), writeBin(as.double(value), raw(), endian = "big"))
    }
}

signed <- function(value) if (value >= 2^31) value - 2^32 else value # R has no unsigned integers
natural <- function(bytes) sum(as.integer(bytes) * 256^((length(bytes) - 1):0)) # exact up to 2^53

unpack <- function(frame) { # an empty frame is as good as an empty map
    at <- 1
    take <- function(size) {
        if (at + size - 1 > length(frame)) stop("msgpack: it is cut")
        at <<- at + size
        if (size) frame[(at - size):(at - 1)] else raw(0)
    }
    text <- function(size) { found <- rawToChar(take(size)); Encoding(found) <- "UTF-8"; found }
    array <- function(size) lapply(seq_len(size), function(i) value())
    map <- function(size) {
        made <- list()
        for (i in seq_len(size)) { key <- value(); made[key] <- list(value()) }
        made
    }
    sized <- function(first) natural(take(2^first))
    value <- function() {
        tag <- as.integer(take(1))
        if (tag < 0x80) tag
        else if (tag < 0x90) map(tag - 0x80)
        else if (tag < 0xa0) array(tag - 0x90)
        else if (tag < 0xc0) text(tag - 0xa0)
        else if (tag >= 0xe0) tag - 256
        else if (tag == 0xc0) NULL
        else if (tag %in% c(0xc2, 0xc3)) tag == 0xc3
        else if (tag %in% 0xc4:0xc6) take(sized(tag - 0xc4))
        else if (tag == 0xca) readBin(take(4), "double", size = 4, endian = "big")
        else if (tag == 0xcb) readBin(take(8), "double", endian = "big")
        else if (tag %in% 0xcc:0xcf) natural(take(2^(tag - 0xcc)))
        else if (tag %in% 0xd0:0xd3) {
            bytes <- take(2^(tag - 0xd0))
            if (as.integer(bytes[1]) < 128) natural(bytes) else -1 - natural(!bytes)
        }
        else if (tag %in% 0xd9:0xdb) text(sized(tag - 0xd9))
        else if (tag %in% 0xdc:0xdd) array(sized(tag - 0xdb))
        else if (tag %in% 0xde:0xdf) map(sized(tag - 0xdd))
        else stop(sprintf("msgpack: no value begins with %02x", tag))
    }
    if (length(frame)) value() else list()
}

# -- the world: + - * / only, each line evaluated as written, so that every language gets the same bits ---------------
p <- new.env()
p$running <- FALSE

draw <- function() {
    p$x <- (16807 * p$x) %% 2147483647 # stays below 2^53: a double holds it
    2.0 * p$x / 2147483647 - 1.0
}

begin <- function(seed) {
    if (!is.numeric(seed) || seed < 0 || seed != floor(seed)) stop("seed: expected an integer from 0")
    p$x <- 1 + seed %% 2147483646
    draw()
    t <- draw()
    q <- 1.0 + t * t
    p$c <- (t * t - 1.0) / q
    p$s <- 2.0 * t / q
    p$w <- draw()
    p$steps <- 0
    p$running <- TRUE
}

advance <- function(torque) {
    u <- min(max(torque, -2.0), 2.0)
    w <- min(max(p$w + (15.0 * p$s + 3.0 * u) * 0.05, -8.0), 8.0)
    k <- w * 0.025
    q <- 1.0 + k * k
    r <- 1.0 - k * k
    c <- (r * p$c - 2.0 * k * p$s) / q
    s <- (r * p$s + 2.0 * k * p$c) / q
    p$c <- c; p$s <- s; p$w <- w
    p$steps <- p$steps + 1
    p$running <- p$steps < 200
    -(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u)
}

# -- the calls: what is returned is the body of the REPLY, what is stopped with becomes an ERROR -----------------------
box <- function(id, low, high, ...) {
    list(id = id, space = list(type = "box", dtype = "<f8", shape = list(), low = low, high = high), ...)
}
state <- function(rewards) {
    force(rewards) # else it would be computed after the readings: arguments wait until they are looked at
    list(readings = list(list(p$c, p$s, p$w)), rewards = rewards, ticks = whole(p$steps), truncated = !p$running)
}

torque_of <- function(body) {
    rows <- body$setpoints
    row <- if (is.list(rows) && length(rows) == 1) rows[[1]]
    if (is.list(row) && !length(row) && is.list(body$actuators) && !length(body$actuators)) return(0.0) # none is given
    u <- if (is.list(row) && length(row) == 1) row[[1]]
    if (!is.numeric(u) || is.nan(u)) stop("torque: expected one number")
    u
}

calls <- list(
    environment.start = function(body) {
        begin(body$seed)
        list(
            sensors = list(box("cos", -1.01, 1.01), box("sin", -1.01, 1.01), box("speed", -8.0, 8.0)),
            actuators = list(box("torque", -2.0, 2.0, value = 0.0)),
            rewards = list(box("balance", -11.0, 1.0)),
            readings = list(list(p$c, p$s, p$w))
        )
    },
    environment.reset = function(body) { begin(body$seed); state(list()) },
    environment.update = function(body) {
        if (!p$running) stop("expected environment.start or .reset before it")
        state(list(list(advance(torque_of(body)))))
    },
    environment.shutdown = function(body) { p$running <- FALSE; NULL }
)

answer <- function(serial, call, frame) {
    if (is.null(calls[[call]])) {
        message <- paste("expected start, reset, update or shutdown of environment, found", call)
        return(list(pack(list(whole(ERROR), whole(serial))), pack(list(kind = "unknown_call", message = message))))
    }
    tryCatch({
        body <- calls[[call]](unpack(frame))
        list(pack(list(whole(REPLY), whole(serial))), if (is.null(body)) raw(0) else pack(body))
    }, error = function(error) {
        failure <- list(kind = "protocol", message = paste0(call, ": ", conditionMessage(error)))
        list(pack(list(whole(ERROR), whole(serial))), pack(failure))
    })
}

# -- the bus: receive, answer, repeat ---------------------------------------------------------------------------------
fail <- function(...) {
    cat("pendulum: ", ..., "\n", sep = "", file = stderr())
    quit(status = 1)
}
variable <- function(key) {
    value <- Sys.getenv(paste0("GANGLION_", key))
    if (value == "") fail("expected GANGLION_", key) else value
}

silence_ms <- as.integer(Sys.getenv("GANGLION_SILENCE_MS", "10000")) # the kernel says something every half second
context <- zmq.ctx.new()
dealer <- zmq.socket(context, .pbd_env$ZMQ.ST$DEALER)
set <- function(option, value) {
    if (zmq.setsockopt(dealer, option, value) != 0) fail("cannot set option ", option)
}
set(.pbd_env$ZMQ.SO$LINGER, 500L) # ms for the last answer to leave
set(.pbd_env$ZMQ.SO$RCVTIMEO, silence_ms)
if (Sys.getenv("GANGLION_SERVER_KEY") != "") { # of a kernel on another machine
    set(.pbd_env$ZMQ.SO$CURVE_SERVERKEY, variable("SERVER_KEY"))
    set(.pbd_env$ZMQ.SO$CURVE_PUBLICKEY, variable("PUBLIC_KEY"))
    set(.pbd_env$ZMQ.SO$CURVE_SECRETKEY, variable("SECRET_KEY"))
}
zmq.connect(dealer, variable("ENDPOINT"))
say <- function(...) zmq.send.multipart(dealer, list(...), serialize = FALSE)
hello <- list(version = whole(1), role = "environment", name = variable("NAME"), token = variable("TOKEN"), language = "r")
say(raw(0), pack(list(whole(HELLO), whole(1))), pack(hello))
asked <- list(); kept <- list()
repeat {
    frames <- tryCatch(zmq.recv.multipart(dealer, unserialize = FALSE), error = function(error) NULL)
    if (length(frames) < 2) fail("the kernel has been silent for ", silence_ms, " ms")
    head <- unpack(frames[[2]])
    verb <- head[[1]]
    serial <- if (length(head) > 1) head[[2]] else 0
    call <- if (length(head) > 2) head[[3]]
    body <- if (length(frames) > 2) frames[[3]] else raw(0)
    if (verb == CALL) {
        if (!identical(frames, asked)) { # else it comes again: it gets the same answer, without another step
            asked <- frames
            kept <- answer(serial, call, body)
        }
        say(frames[[1]], kept[[1]], kept[[2]])
    } else if (verb == BEAT && is.null(call)) {
        say(raw(0), pack(list(whole(BEAT), whole(serial), "here")), raw(0))
    } else if (verb == BYE) {
        say(raw(0), pack(list(whole(BYE), whole(serial))), raw(0))
        break
    } else if (verb == ERROR) {
        fail("the kernel ends the connection: ", unpack(body)$message)
    }
}
zmq.close(dealer)
zmq.ctx.destroy(context)
