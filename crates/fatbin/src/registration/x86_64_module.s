# The constructor of an object that is a module, for x86-64: the source of CONSTRUCTOR in x86_64.rs,
# which a test assembles and compares. It calls what the host object of a later device link defines.
begin:
        endbr64
        lea     callback(%rip), %rdi
        lea     wrapper(%rip), %rsi
        lea     id(%rip), %rdx
        lea     callback(%rip), %rcx
        jmp     __cudaRegisterLinkedBinaryX@PLT
        .balign 16, 0xcc
# Nothing is registered for this module, and nothing done with the string of the other.
callback:
        endbr64
        ret
        .balign 16, 0xcc
