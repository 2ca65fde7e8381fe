! Play the reference pendulum with the flat C library of ../c: declare, then answer one call after the other.
!
!     gcc -O2 -c ganglion_peer.c && gfortran -O2 -ffp-contract=off pendulum.f90 ganglion_peer.o -lzmq -lmsgpackc -o pendulum
module ganglion
    use iso_c_binding
    implicit none
    integer(c_int), parameter :: LOST = -1, LEFT = 0, START = 1, RESET = 2, UPDATE = 3, SHUTDOWN = 4

    interface
        function ganglion_open(language) bind(c) result(peer)
            import :: c_ptr, c_char
            character(kind=c_char), intent(in) :: language(*)
            type(c_ptr) :: peer
        end function
        integer(c_int) function ganglion_sensor(peer, id, low, high) bind(c)
            import :: c_ptr, c_char, c_int, c_double
            type(c_ptr), value :: peer
            character(kind=c_char), intent(in) :: id(*)
            real(c_double), value :: low, high
        end function
        integer(c_int) function ganglion_actuator(peer, id, low, high, noop) bind(c)
            import :: c_ptr, c_char, c_int, c_double
            type(c_ptr), value :: peer
            character(kind=c_char), intent(in) :: id(*)
            real(c_double), value :: low, high, noop
        end function
        integer(c_int) function ganglion_reward(peer, id, low, high) bind(c)
            import :: c_ptr, c_char, c_int, c_double
            type(c_ptr), value :: peer
            character(kind=c_char), intent(in) :: id(*)
            real(c_double), value :: low, high
        end function
        integer(c_int) function ganglion_next(peer) bind(c)
            import :: c_ptr, c_int
            type(c_ptr), value :: peer
        end function
        integer(c_int64_t) function ganglion_seed(peer) bind(c)
            import :: c_ptr, c_int64_t
            type(c_ptr), value :: peer
        end function
        integer(c_int) function ganglion_setpoints(peer, into) bind(c)
            import :: c_ptr, c_int, c_double
            type(c_ptr), value :: peer
            real(c_double), intent(inout) :: into(*)
        end function
        integer(c_int) function ganglion_answer(peer, readings, rewards, ticks, terminated, truncated) bind(c)
            import :: c_ptr, c_int, c_int64_t, c_double
            type(c_ptr), value :: peer
            real(c_double), intent(in) :: readings(*), rewards(*)
            integer(c_int64_t), value :: ticks
            integer(c_int), value :: terminated, truncated
        end function
        function ganglion_reason(peer) bind(c) result(text)
            import :: c_ptr
            type(c_ptr), value :: peer
            type(c_ptr) :: text
        end function
        integer(c_int) function ganglion_close(peer) bind(c)
            import :: c_ptr, c_int
            type(c_ptr), value :: peer
        end function
        integer(c_size_t) function strlen(text) bind(c)
            import :: c_ptr, c_size_t
            type(c_ptr), value :: text
        end function
    end interface
end module

! The world: + - * / only, each line evaluated as written, so that every language gets the same bits.
module world
    use iso_c_binding
    implicit none
    integer(c_int64_t) :: x, steps
    real(c_double) :: c, s, w

contains

    real(c_double) function draw()
        x = mod(16807_c_int64_t * x, 2147483647_c_int64_t)
        draw = 2.0d0 * real(x, c_double) / 2147483647.0d0 - 1.0d0
    end function

    subroutine begin(seed)
        integer(c_int64_t), intent(in) :: seed
        real(c_double) :: q, t
        x = 1 + mod(seed, 2147483646_c_int64_t)
        t = draw() ! the first one hardly depends on the seed
        t = draw()
        q = 1.0d0 + t * t
        c = (t * t - 1.0d0) / q
        s = 2.0d0 * t / q
        w = draw()
        steps = 0
    end subroutine

    real(c_double) function advance(torque)
        real(c_double), intent(in) :: torque
        real(c_double) :: before, k, p, q, u
        u = min(max(torque, -2.0d0), 2.0d0)
        w = w + (15.0d0 * s + 3.0d0 * u) * 0.05d0
        w = min(max(w, -8.0d0), 8.0d0)
        k = w * 0.025d0
        q = 1.0d0 + k * k
        p = 1.0d0 - k * k
        before = c
        c = (p * before - 2.0d0 * k * s) / q
        s = (p * s + 2.0d0 * k * before) / q
        steps = steps + 1
        advance = -(2.0d0 * (1.0d0 - c) + 0.1d0 * w * w + 0.001d0 * u * u)
    end function
end module

program pendulum
    use iso_c_binding
    use iso_fortran_env, only: error_unit
    use ganglion
    use world
    implicit none
    type(c_ptr) :: peer
    integer(c_int) :: call, code
    real(c_double) :: reward(1), torque(1)
    character(kind=c_char), pointer :: why(:)

    peer = ganglion_open("fortran" // c_null_char)
    if (.not. c_associated(peer)) stop 1
    code = ganglion_sensor(peer, "cos" // c_null_char, -1.01d0, 1.01d0)
    code = min(code, ganglion_sensor(peer, "sin" // c_null_char, -1.01d0, 1.01d0))
    code = min(code, ganglion_sensor(peer, "speed" // c_null_char, -8.0d0, 8.0d0))
    code = min(code, ganglion_actuator(peer, "torque" // c_null_char, -2.0d0, 2.0d0, 0.0d0))
    code = min(code, ganglion_reward(peer, "balance" // c_null_char, -11.0d0, 1.0d0))
    call = SHUTDOWN
    do while (code >= 0)
        call = ganglion_next(peer)
        reward = 0.0d0
        select case (call)
        case (START, RESET)
            call begin(ganglion_seed(peer))
        case (UPDATE)
            torque = 0.0d0
            code = ganglion_setpoints(peer, torque)
            reward = advance(torque(1))
        case (SHUTDOWN)
            continue
        case default
            exit
        end select
        code = ganglion_answer(peer, [c, s, w], reward, steps, 0, merge(1, 0, call == UPDATE .and. steps >= 200))
    end do
    if (code < 0 .or. call == LOST) then
        call c_f_pointer(ganglion_reason(peer), why, [strlen(ganglion_reason(peer))])
        write (error_unit, *) "pendulum: ", why
        code = ganglion_close(peer)
        stop 1
    end if
    if (ganglion_close(peer) < 0) stop 1
end program
