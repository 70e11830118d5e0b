//! Frees of what is not an object, and what can be said about them.

use crate::arena::Arena;
use crate::cache::ThreadCache;
use crate::class::Class;
use crate::layout::{GRANULE, Granule};
use crate::outbox::FreedTwice;
use crate::tables::RUN;
use core::fmt;
use core::num::NonZeroUsize;
use freehold_sys::System;

/// Why an address cannot be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// It is no memory of this allocator's.
    Foreign {
        /// The address.
        address: usize,
    },
    /// It lies inside an object, or behind the last object of a slab.
    Interior {
        /// The address.
        address: usize,
        /// Where the object that contains it starts; the address itself if none does.
        start: usize,
        /// Bytes in that object.
        size: usize,
    },
    /// It is memory of this allocator's that nobody has.
    NotAllocated {
        /// The address.
        address: usize,
    },
    /// The object, or another of the same slab, was freed before.
    FreedTwice {
        /// The address, or that of the slab if that is all that is known.
        address: usize,
    },
    /// The object is free. In hardened mode.
    FreedAgain {
        /// The address.
        address: usize,
    },
    /// Somebody wrote to what follows the object. In hardened mode.
    Overrun {
        /// The address.
        address: usize,
        /// Bytes that the object may have, at most.
        size: usize,
    },
    /// Somebody wrote to what precedes the object. In hardened mode.
    Underrun {
        /// The address.
        address: usize,
    },
    /// Somebody wrote to the object while it was free. In hardened mode.
    WrittenWhenFree {
        /// The address.
        address: usize,
        /// Bytes that the object may have, at most.
        size: usize,
    },
}

impl Invalid {
    /// The address that cannot be freed.
    pub fn address(&self) -> usize {
        match *self {
            Self::Foreign { address }
            | Self::Interior { address, .. }
            | Self::NotAllocated { address }
            | Self::FreedTwice { address }
            | Self::FreedAgain { address }
            | Self::Overrun { address, .. }
            | Self::Underrun { address }
            | Self::WrittenWhenFree { address, .. } => address,
        }
    }
}

/// What was freed twice, and found out where no free was there to fail, until its thread says so.
pub(crate) struct FoundLate(Option<NonZeroUsize>);

impl FoundLate {
    pub(crate) const NOTHING: Self = Self(None);

    /// Notes it, if nothing was found before.
    pub(crate) fn note(&mut self, found: Invalid) {
        self.0 = self.0.or(NonZeroUsize::new(found.address()));
    }

    /// Likewise what was found elsewhere.
    #[inline]
    pub(crate) fn note_all(&mut self, other: &Self) {
        self.0 = self.0.or(other.0);
    }

    /// What was noted, once.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Invalid> {
        Some(Invalid::FreedTwice { address: self.0.take()?.get() })
    }
}

impl ThreadCache {
    /// What was freed twice, and found out as the thread allocated, if anything was. Says so once.
    #[inline]
    pub fn take_found_late(&mut self) -> Option<Invalid> {
        self.found_late.take()
    }
}

/// The slab that an address lies in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Bytes from one of its objects to the next.
    pub size: usize,
    /// The heap whose thread keeps objects of it.
    pub heap: Option<u16>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in a slab of objects of {} bytes", self.size)?;
        match self.heap {
            Some(heap) => write!(f, " of heap {heap}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Foreign { address } => {
                write!(f, "{address:#x} is not memory that Freehold gave out")
            }
            Self::Interior { address, start, size } => write!(
                f,
                "{address:#x} is {} bytes into the object of {size} bytes at {start:#x}: only an \
                 object's start can be freed",
                address - start
            ),
            Self::NotAllocated { address } => {
                write!(f, "{address:#x} is not allocated: it was freed before, or never given out")
            }
            Self::FreedTwice { address } => {
                write!(
                    f,
                    "double free: {address:#x}, or another object of its slab, is free already"
                )
            }
            Self::FreedAgain { address } => {
                write!(f, "double free: {address:#x} is free already")
            }
            Self::Overrun { address, size } => write!(
                f,
                "overflow: what follows the object at {address:#x}, which has room for {size} \
                 bytes, was written to"
            ),
            Self::Underrun { address } => write!(
                f,
                "underflow, or overflow of the object before: what precedes the object at \
                 {address:#x} was written to"
            ),
            Self::WrittenWhenFree { address, size } => write!(
                f,
                "use after free: the free object at {address:#x}, which has room for {size} \
                 bytes, was written to"
            ),
        }
    }
}

impl<S: System> Arena<S> {
    /// The slab that an address lies in, if it lies in one.
    pub fn place_of(&self, address: usize) -> Option<Place> {
        let tag = self.tag(self.granule_of(address)?);
        match tag.class() {
            0 | RUN => None,
            class => {
                let heap = Some(tag.owner()).filter(|&owner| owner != 0);
                Some(Place { size: Class(class).size(), heap })
            }
        }
    }

    /// Says why an address that is not the start of an object cannot be freed.
    #[cold]
    pub(crate) fn explain(&self, address: usize) -> Invalid {
        let Some(g) = self.granule_of(address) else {
            return match self.direct.containing(address) {
                Some((start, size)) => Invalid::Interior { address, start, size },
                None => Invalid::Foreign { address },
            };
        };
        let tag = self.tag(g);
        match tag.class() {
            0 => self.explain_untagged(address, g),
            RUN if self.is_free_run(g) => Invalid::NotAllocated { address },
            RUN => {
                let start = self.tables.address(g);
                let size = self.run_granules(g) as usize * GRANULE;
                Invalid::Interior { address, start, size }
            }
            class => {
                let (slab, size) =
                    (self.tables.address(Granule(g.0 - tag.delta())), Class(class).size());
                let start = slab + (address - slab) / size * size;
                Invalid::Interior { address, start, size }
            }
        }
    }

    /// A granule without a tag is free, or inside a run that starts further down.
    fn explain_untagged(&self, address: usize, g: Granule) -> Invalid {
        let nearest = (0..g.0).rev().map(Granule).find(|&g| self.tag(g).class() != 0);
        if let Some(head) = nearest.and_then(|head| self.run_at(self.tables.address(head))) {
            let (start, granules) = (self.tables.address(head), self.run_granules(head));
            if g.0 < head.0 + granules {
                return Invalid::Interior { address, start, size: granules as usize * GRANULE };
            }
        }
        Invalid::NotAllocated { address }
    }

    /// A free that a slab's word refused.
    pub(crate) fn twice(&self, freed: FreedTwice) -> Invalid {
        let tag = self.tag(freed.slab);
        let address = self.tables.address(freed.slab);
        if tag.class() == 0 {
            Invalid::NotAllocated { address }
        } else {
            Invalid::FreedTwice { address }
        }
    }
}
