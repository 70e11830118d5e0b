//! A thread of a program, as the heap sees it: the steps are those of the runtime, and all but the
//! fast path are taken in turns.

use crate::estate::Estate;
use freehold_heap::arena::Arena;
use freehold_heap::blocks::Prefer;
use freehold_heap::cache::ThreadCache;
use freehold_heap::class::{Class, MEDIUM_MAX, SMALL_MAX};
use freehold_heap::free::{Found, Posted};
use freehold_heap::invalid::Invalid;
use freehold_heap::layout::UNIT;
use freehold_heap::magazine::Kept;
use freehold_sys::System;

/// A thread of the program.
pub struct Thread<'a, S: System> {
    arena: &'a Arena<S>,
    /// What it keeps to itself.
    pub cache: ThreadCache,
}

impl<'a, S: System> Thread<'a, S> {
    /// One that has nothing yet.
    pub fn new(estate: &'a Estate<S>) -> Self {
        Self { arena: estate.arena(), cache: ThreadCache::new() }
    }

    /// Allocates as malloc does; `None` without memory.
    pub fn alloc(&mut self, size: usize) -> Option<usize> {
        if size <= SMALL_MAX {
            let class = Class::of_small(size);
            let object = self.cache.pop(class);
            if !object.is_null() {
                return Some(object.addr());
            }
            if let Some(object) = self.in_turn(|cache, _| cache.pop_set_aside(class)) {
                return Some(object.addr().get());
            }
        } else if size <= MEDIUM_MAX {
            let class = Class::of_medium(size);
            let given = self.in_turn(|cache, arena| {
                let at_hand = cache.pop_medium(class);
                at_hand.or_else(|| {
                    cache.note_medium_missed(arena, class);
                    cache.take_medium(arena, class)
                })
            });
            return given.map(|given| given.address);
        }
        self.alloc_aligned(size, 16)
    }

    /// Does what others may do in the thread's place while it is out.
    fn in_turn<R>(&mut self, f: impl FnOnce(&mut ThreadCache, &Arena<S>) -> R) -> R {
        self.cache.set_busy(true);
        let result = f(&mut self.cache, self.arena);
        self.cache.set_busy(false);
        result
    }

    /// Allocates at a multiple of a power of two.
    pub fn alloc_aligned(&mut self, size: usize, align: usize) -> Option<usize> {
        let given = self.in_turn(|cache, arena| cache.take(arena, size, align, Prefer::Dirty));
        given.map(|given| given.address)
    }

    /// Memory that is zero.
    pub fn alloc_zeroed(&mut self, size: usize) -> Option<usize> {
        self.in_turn(|cache, arena| cache.take_zeroed(arena, size, UNIT))
    }

    /// Frees an object.
    pub fn free(&mut self, address: usize) {
        self.try_free(address).unwrap();
    }

    /// Frees objects, in their order.
    pub fn free_all(&mut self, addresses: impl IntoIterator<Item = usize>) {
        for address in addresses {
            self.free(address);
        }
    }

    /// Frees an object, if it is one.
    pub fn try_free(&mut self, address: usize) -> Result<(), Invalid> {
        // SAFETY: the test gives the object up.
        unsafe {
            // The same ways as in the runtime.
            let region = self.arena.region();
            let kept = self.cache.keep(region, address);
            if kept == Kept::Done {
                return Ok(());
            }
            self.in_turn(|cache, arena| {
                if let Kept::Full(class) = kept {
                    let kept = cache.push_after_setting_aside(class, address);
                    return if kept { Ok(()) } else { cache.keep_in_full(arena, address) };
                }
                if cache.put_back_last(arena, address) {
                    return Ok(());
                }
                if let Found::Medium(g, part) = arena.slab_at(address) {
                    match cache.keep_medium(arena, (g, part), address) {
                        Ok(()) => return Ok(()),
                        Err(Some(n)) => {
                            let place = arena.numbered(address, n);
                            let mut posted = cache.hand_over_medium(arena, place, address);
                            if posted == Posted::No {
                                let mut twice = Ok(());
                                let note = |it| twice = Err(it);
                                if cache.keep_medium_instead(arena, place.class, address, note) {
                                    return twice;
                                }
                                posted = cache.post_medium(arena, place, address);
                            }
                            match posted {
                                Posted::Done => return Ok(()),
                                Posted::Alone if cache.send_medium_alone(arena, place) => {
                                    return Ok(());
                                }
                                Posted::Alone | Posted::No => {}
                            }
                        }
                        Err(None) => {}
                    }
                }
                let aside = cache.put_aside(arena, address);
                if cache.post(arena, address, aside) {
                    return Ok(());
                }
                cache.free_slow(arena, address)
            })
        }
    }

    /// Changes the size of an object, which may move; `None` without memory.
    pub fn resize(&mut self, address: usize, size: usize) -> Option<usize> {
        // SAFETY: the test owns the object.
        self.in_turn(|cache, arena| unsafe { cache.resize(arena, address, size) }).unwrap()
    }

    /// The bytes that can be used.
    pub fn usable(&self, address: usize) -> usize {
        self.arena.usable_size(address).unwrap()
    }
}

impl<S: System> Drop for Thread<'_, S> {
    fn drop(&mut self) {
        let ended = self.in_turn(ThreadCache::end);
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}
