// Allocates and checks.
#include <cassert>
struct Node { Node* next; int value; };
__device__ void show(const Node* n);
__global__ void build(int n)
{
    Node* head = nullptr;
    for (int i = 0; i < n; ++i) head = new Node{head, i};
    assert(head);
    show(head);
    while (head) { Node* next = head->next; delete head; head = next; }
}
