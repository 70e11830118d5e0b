//! Letting go of hot medium objects: for others that are wanted, or because their thread rests or
//! ends.

use super::{AtHand, MediumBins, NO_SLAB, medium_class};
use crate::arena::Arena;
use crate::class::{Class, MEDIUM_CLASSES};
use crate::free::InSlab;
use crate::hot::{AllHot, Hot};
use crate::invalid::{FoundLate, Invalid};
use crate::magazine::ROUNDS;
use crate::reclaim::LetGo;
use crate::swing::BATCHES_AT_ONCE;
use freehold_sys::System;

impl<S: System> Arena<S> {
    /// Notes that a heap's leaseholder has nothing at hand of a class, of which some is fetched
    /// now. If there could not be enough, there may be more from now on; if there may be too many
    /// of another class, some go home. Returns the granules released. Notes in `twice` what was
    /// free already, as those below.
    pub(crate) fn note_medium_missed(
        &self,
        bins: &mut MediumBins,
        class: Class,
        twice: &mut FoundLate,
    ) -> u32 {
        let MediumBins { at_hand, all_hot } = bins;
        let hot = &mut at_hand[class.medium_index()].hot;
        if all_hot.note_missed(self, class, hot, || self.most_hot()) {
            return 0;
        }
        let Some(n) = all_hot.unused(|n| at_hand[n].hot.look()) else { return 0 };
        self.send_some_hot(bins, medium_class(n), twice)
    }

    /// Sends hot objects home of a class that lies idle, if there is one, as so many bytes are
    /// fetched. Returns the granules released.
    pub(crate) fn make_room_of_hot(
        &self,
        bins: &mut MediumBins,
        bytes: usize,
        twice: &mut FoundLate,
    ) -> u32 {
        let MediumBins { at_hand, all_hot } = &mut *bins;
        if all_hot.swing.ends_epoch(bytes) {
            for it in at_hand.iter_mut() {
                it.hot.end_epoch();
            }
        }
        let all = at_hand[..MEDIUM_CLASSES].iter().enumerate();
        let mut all = all.map(|(n, it)| (medium_class(n), &it.hot));
        let is_idle = |it: &(Class, &Hot)| all_hot.is_idle(it.0, it.1);
        let Some((idle, _)) = all.find(is_idle) else { return 0 };
        let (mut released, mut fetched) = (0, bytes);
        for _ in 0..BATCHES_AT_ONCE {
            if !bins.all_hot.swing.owes(fetched, ROUNDS * idle.size()) {
                break;
            }
            released += self.send_some_hot(bins, idle, twice);
            fetched = 0;
        }
        // That they were taken out for this is no use.
        bins.at_hand[idle.medium_index()].hot.note_idle();
        released
    }

    /// Sends some hot objects of a class home. Returns the granules released.
    // Out of line: it is seldom needed by those that would take it in.
    #[inline(never)]
    fn send_some_hot(&self, bins: &mut MediumBins, class: Class, twice: &mut FoundLate) -> u32 {
        let MediumBins { at_hand, all_hot } = bins;
        let hot = &mut at_hand[class.medium_index()].hot;
        let mut note = |it| twice.note(it);
        let released = self.send_some_hot_home(class, (hot, all_hot), &mut note);
        if hot.count() == 0 {
            all_hot.make_shallow(self, class, hot);
        }
        released
    }

    /// Returns what is hot, so many objects or a few more, and then what the bins hold, to the
    /// slabs it came from. Calls `twice` with what was free already.
    pub(crate) fn let_go_of_medium(
        &self,
        bins: &mut MediumBins,
        most: usize,
        mut twice: impl FnMut(Invalid),
    ) -> LetGo {
        let MediumBins { at_hand, all_hot } = bins;
        let (mut released, mut left) = (0, most);
        for (n, AtHand { hot, .. }) in at_hand[..MEDIUM_CLASSES].iter_mut().enumerate() {
            let class = medium_class(n);
            while hot.count() > 0 {
                if left == 0 {
                    return LetGo { released, is_all: false };
                }
                left = left.saturating_sub(ROUNDS);
                released += self.send_some_hot_home(class, (hot, all_hot), &mut twice);
            }
            all_hot.make_shallow(self, class, hot);
        }
        for (n, AtHand { bin, .. }) in at_hand[..MEDIUM_CLASSES].iter_mut().enumerate() {
            let bin = bin.take();
            if bin.free != 0 {
                let class = medium_class(n);
                let home = self.send_medium_home(class, bin.slab, bin.free, None, &self.tally);
                debug_assert!(home.is_ok(), "a bin held an object that is free");
                released += home.unwrap_or(0);
            }
        }
        LetGo { released, is_all: true }
    }

    /// Returns the hot objects freed last to their slabs, those of one slab together: [`ROUNDS`] of
    /// them, or as many as there are. Returns the granules released. Calls `twice` with what was
    /// free already.
    fn send_some_hot_home(
        &self,
        class: Class,
        (hot, all_hot): (&mut Hot, &mut AllHot),
        twice: &mut dyn FnMut(Invalid),
    ) -> u32 {
        let mut objects = [(NO_SLAB, 0_u64); ROUNDS];
        let mut count = 0;
        while let Some(place) = objects.get_mut(count)
            && let Some(object) = all_hot.pop(hot)
        {
            let found = self.object_at(object).filter(|found| found.class == class);
            if let Some(InSlab { slab, index, .. }) = found {
                *place = (slab, 1 << index);
                count += 1;
            } else {
                // It is not of the class any more, as it was when it was kept: its slab was whole.
                twice(Invalid::FreedTwice { address: object });
            }
        }
        let (mut released, mut rest) = (0, &mut objects[..count]);
        while let Some((&mut (slab, first), others)) = rest.split_first_mut() {
            let mut bits = first;
            let same = others.iter_mut().filter(|(other, _)| *other == slab);
            same.for_each(|(_, bit)| bits |= core::mem::take(bit));
            // Those that were taken along have no bits left.
            if bits != 0 {
                released += self.send_hot_home((class, slab, bits), None, &self.tally, twice);
            }
            rest = others;
        }
        released
    }
}
