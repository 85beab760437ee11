// The constructor of an object that is a module, for AArch64: the source of CONSTRUCTOR in
// aarch64.rs, which a test assembles and compares. x86_64_module.s says what it does.
begin:
        bti     c
        adrp    x1, wrapper
        add     x1, x1, :lo12:wrapper
        adrp    x2, id
        add     x2, x2, :lo12:id
        adr     x0, callback
        mov     x3, x0
        b       __cudaRegisterLinkedBinaryX
callback:
        bti     c
        ret
        .balign 16
