// Votes.
__device__ unsigned vote(int x) { return __ballot_sync(0xffffffffu, x > 3) + __any_sync(0xfu, x) + __match_any_sync(0xffffffffu, x); }
