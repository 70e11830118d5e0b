/* One thread that is sent messages through a pipe, and makes of each a tree of small blocks.
   Verdict: allocator_cpu */
#include "known.h"

#include <poll.h>

enum { DEPTH = 12 };

typedef struct node {
    struct node *left, *right;
    char key[24];
} node;

static node *grow(int depth) {
    if (depth == 0) return NULL;
    node *own = malloc(sizeof *own);
    memcpy(own->key, "key", 4);
    own->left = grow(depth - 1);
    own->right = grow(depth - 1);
    return own;
}

static void fell(node *own) {
    if (!own) return;
    fell(own->left);
    fell(own->right);
    free(own);
}

int main(int words, char **word) {
    int ends[2];
    char message = 1;
    begin(words, word);
    if (pipe(ends)) return 1;
    while (!is_over()) {
        struct pollfd waited = {.fd = ends[0], .events = POLLIN};
        if (write(ends[1], &message, 1) != 1 || poll(&waited, 1, -1) != 1) return 1;
        if (read(ends[0], &message, 1) != 1) return 1;
        fell(grow(DEPTH));
    }
}
