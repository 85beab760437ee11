# Registration of a device link's modules for x86-64: the source of the tables in x86_64.rs, which a
# test assembles and compares. N is the number of modules. It is position independent.
#
# %rdi callback of a module, %rsi its wrapper, from the code of the module below. Once all have come:
# the runtime gets the fat binary, every module its handle, in the order in which they came.
register:
        mov     count(%rip), %eax
        lea     images(%rip), %rdx
        mov     8(%rsi), %rcx
        mov     %rcx, (%rdx,%rax,8)
        lea     callbacks(%rip), %rdx
        mov     %rdi, (%rdx,%rax,8)
        inc     %eax
        mov     %eax, count(%rip)
        mov     $N, %ecx
        cmp     %ecx, %eax
        je      1f
        ret
1:      push    %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_offset %rbx, -16
        lea     wrapper(%rip), %rdi
        call    __cudaRegisterFatBinary@PLT
        mov     %rax, handle(%rip)
        lea     unregister(%rip), %rdi
        call    atexit@PLT
        xor     %ebx, %ebx
2:      lea     callbacks(%rip), %rdx
        mov     handle(%rip), %rdi
        call    *(%rdx,%rbx,8)
        inc     %ebx
        mov     $N, %ecx
        cmp     %ecx, %ebx
        jne     2b
        mov     handle(%rip), %rdi
        pop     %rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbx
        jmp     __cudaRegisterFatBinaryEnd@PLT
unregister:
        endbr64
        mov     handle(%rip), %rdi
        jmp     __cudaUnregisterFatBinary@PLT
        .balign 16, 0xcc
# For each module; its constructor calls it. The other arguments keep strings alive only.
        .macro  module id
        .globl  __cudaRegisterLinkedBinary\id
__cudaRegisterLinkedBinary\id:
        endbr64
        mov     __fatbinwrap\id@GOTPCREL(%rip), %rsi
        {disp32} jmp register
        .endm
