//! The free blocks of a best-fit heap, in a tree that adjusts itself (a splay tree): ordered by
//! size, and by address among equals. Its links lie in the blocks themselves, so that walking it
//! means visiting them.

use crate::block::{UNIT, at, header};
use core::cmp::Ordering;

/// What a free block has behind its header. An address of 0 stands for nothing.
#[repr(C)]
struct Links {
    left: usize,
    right: usize,
}

/// Size and address of the header.
type Key = (usize, usize);

/// The tree, by the address of its root's header.
pub(crate) struct Tree {
    root: usize,
}

/// # Safety
/// A free block of this tree, or of the caller's, has its header there.
unsafe fn links<'a>(block: usize) -> &'a mut Links {
    // SAFETY: the caller's promise; every block has room for the links.
    unsafe { &mut *at::<Links>(block + UNIT) }
}

/// # Safety
/// As for [`links`].
unsafe fn key(block: usize) -> Key {
    // SAFETY: the caller's promise.
    (unsafe { header(block) }.bytes(), block)
}

impl Tree {
    pub(crate) const fn new() -> Self {
        Self { root: 0 }
    }

    /// Adds a block.
    ///
    /// # Safety
    /// The block is free, in no tree, and its header is right.
    pub(crate) unsafe fn insert(&mut self, block: usize) {
        // SAFETY: the block is the caller's, and those in the tree are free and the tree's.
        unsafe {
            *links(block) = Links { left: 0, right: 0 };
            if self.root != 0 {
                self.splay(key(block));
                let root = links(self.root);
                if key(block) < key(self.root) {
                    *links(block) = Links { left: root.left, right: self.root };
                    root.left = 0;
                } else {
                    *links(block) = Links { left: self.root, right: root.right };
                    root.right = 0;
                }
            }
        }
        self.root = block;
    }

    /// Takes a block out.
    ///
    /// # Safety
    /// The block is in this tree, with the size that it had when it came.
    pub(crate) unsafe fn remove(&mut self, block: usize) {
        // SAFETY: the blocks in the tree are free and the tree's.
        unsafe {
            let own = key(block);
            self.splay(own);
            let Links { left, right } = *links(block);
            self.root = left;
            if left == 0 {
                self.root = right;
            } else {
                // Everything to the left is less, so the greatest of it comes up, and has no right.
                self.splay(own);
                links(self.root).right = right;
            }
        }
    }

    /// Takes out the smallest block of at least `bytes`, and of several the one that comes first.
    ///
    /// # Safety
    /// Every block in the tree is still free and unchanged.
    pub(crate) unsafe fn take_best(&mut self, bytes: usize) -> Option<usize> {
        if self.root == 0 {
            return None;
        }
        // SAFETY: the blocks in the tree are free and the tree's.
        unsafe {
            self.splay((bytes, 0));
            let mut best = self.root;
            if key(best) < (bytes, 0) {
                // The greatest of those that are too small came up: the next is what fits best.
                best = links(best).right;
                while best != 0 && links(best).left != 0 {
                    best = links(best).left;
                }
            }
            (best != 0).then(|| {
                self.remove(best);
                best
            })
        }
    }

    /// Brings the block of this key up to the root, or one of the two between which it would be.
    /// The tree must not be empty.
    ///
    /// # Safety
    /// As for [`Tree::take_best`].
    unsafe fn splay(&mut self, wanted: Key) {
        // On the way down, what is less hangs on the right edge of one tree and what is greater on
        // the left edge of another; `ends` is where the next piece goes.
        let mut ends = Links { left: 0, right: 0 };
        let (mut less, mut greater) = (&raw mut ends.right, &raw mut ends.left);
        let mut here = self.root;
        // SAFETY: the blocks in the tree are free and the tree's; `less` and `greater` point to
        // `ends` or into blocks that were passed.
        unsafe {
            loop {
                let order = wanted.cmp(&key(here));
                let next = child(here, order);
                if next == 0 {
                    break;
                }
                // Two steps in the same direction: turn around first, which shortens the path.
                if wanted.cmp(&key(next)) == order && child(next, order) != 0 {
                    rotate(here, next, order);
                    here = next;
                }
                let down = child(here, order);
                if order == Ordering::Less {
                    *greater = here;
                    greater = &raw mut links(here).left;
                } else {
                    *less = here;
                    less = &raw mut links(here).right;
                }
                here = down;
            }
            *less = links(here).left;
            *greater = links(here).right;
            *links(here) = Links { left: ends.right, right: ends.left };
        }
        self.root = here;
    }
}

/// The child on the way to a key that compares so with the block's own; 0 if this is it.
///
/// # Safety
/// As for [`links`].
unsafe fn child(block: usize, order: Ordering) -> usize {
    // SAFETY: the caller's promise.
    let links = unsafe { links(block) };
    match order {
        Ordering::Less => links.left,
        Ordering::Equal => 0,
        Ordering::Greater => links.right,
    }
}

/// Makes a child the parent of its parent.
///
/// # Safety
/// As for [`links`], for both.
unsafe fn rotate(parent: usize, child: usize, order: Ordering) {
    // SAFETY: the caller's promise.
    unsafe {
        if order == Ordering::Less {
            links(parent).left = links(child).right;
            links(child).right = parent;
        } else {
            links(parent).right = links(child).left;
            links(child).left = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Header, Kind};
    use std::collections::BTreeSet;

    const BLOCKS: usize = 500;

    /// A step of a linear congruential generator: the same numbers in every run.
    fn next(seed: &mut u64) -> usize {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*seed >> 33) as usize
    }

    #[test]
    fn it_gives_what_an_ordered_set_gives() {
        let mut memory = vec![[0_u64; 4]; BLOCKS];
        let start = memory.as_mut_ptr().expose_provenance();
        let place = |n: usize| start + n * 32;
        let (mut tree, mut set, mut seed) = (Tree::new(), BTreeSet::new(), 42);
        for step in 0..20_000 {
            let n = next(&mut seed) % BLOCKS;
            let held = set.iter().any(|&(_, block)| block == place(n));
            // SAFETY: every block has 32 bytes of `memory` to itself.
            unsafe {
                if step % 3 == 0 {
                    let wanted = next(&mut seed) % 40 * 16;
                    let expected = set.range((wanted, 0)..).next().copied();
                    assert_eq!(tree.take_best(wanted), expected.map(|(_, block)| block));
                    expected.map(|it| set.remove(&it));
                } else if held {
                    tree.remove(place(n));
                    set.remove(&key(place(n)));
                } else {
                    let bytes = next(&mut seed) % 32 * 16;
                    *header(place(n)) = Header::new(0, bytes, Kind::Free);
                    tree.insert(place(n));
                    set.insert((bytes, place(n)));
                }
            }
        }
        assert!(!set.is_empty());
    }
}
