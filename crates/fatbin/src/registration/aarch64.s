// Registration of a device link's modules for AArch64: the source of the tables in aarch64.rs, which a
// test assembles and compares. N is the number of modules. x86_64.s says what it does.
//
// x0 callback of a module, x1 its wrapper.
register:
        adrp    x2, count
        add     x2, x2, :lo12:count
        ldr     w3, [x2]
        adrp    x4, images
        add     x4, x4, :lo12:images
        ldr     x5, [x1, #8]
        str     x5, [x4, x3, lsl #3]
        adrp    x4, callbacks
        add     x4, x4, :lo12:callbacks
        str     x0, [x4, x3, lsl #3]
        add     w3, w3, #1
        str     w3, [x2]
        movz    w5, #(N & 0xffff)
        movk    w5, #(N >> 16), lsl #16
        cmp     w3, w5
        b.eq    1f
        ret
1:      stp     x29, x30, [sp, #-32]!
        .cfi_adjust_cfa_offset 32
        .cfi_offset x29, -32
        .cfi_offset x30, -24
        mov     x29, sp
        stp     x19, x20, [sp, #16]
        .cfi_offset x19, -16
        .cfi_offset x20, -8
        adrp    x20, handle
        add     x20, x20, :lo12:handle
        adrp    x0, wrapper
        add     x0, x0, :lo12:wrapper
        bl      __cudaRegisterFatBinary
        str     x0, [x20]
        adr     x0, unregister
        bl      atexit
        mov     w19, #0
2:      adrp    x1, callbacks
        add     x1, x1, :lo12:callbacks
        ldr     x1, [x1, x19, lsl #3]
        ldr     x0, [x20]
        blr     x1
        add     w19, w19, #1
        movz    w5, #(N & 0xffff)
        movk    w5, #(N >> 16), lsl #16
        cmp     w19, w5
        b.ne    2b
        ldr     x0, [x20]
        ldp     x19, x20, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_adjust_cfa_offset -32
        .cfi_restore x29
        .cfi_restore x30
        .cfi_restore x19
        .cfi_restore x20
        b       __cudaRegisterFatBinaryEnd
unregister:
        bti     c
        adrp    x0, handle
        add     x0, x0, :lo12:handle
        ldr     x0, [x0]
        b       __cudaUnregisterFatBinary
        .balign 16
        .macro  module id
        .globl  __cudaRegisterLinkedBinary\id
__cudaRegisterLinkedBinary\id:
        bti     c
        adrp    x1, :got:__fatbinwrap\id
        ldr     x1, [x1, :got_lo12:__fatbinwrap\id]
        b       register
        .endm
