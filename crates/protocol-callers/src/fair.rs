//! Fair sharing of a bounded number of slots between callers.
//!
//! Everything that a client can make a server hold (calls in flight, sessions, connections, bytes)
//! is counted by a
//! [`FairLimiter`]: in total, and per [`Caller`]. A slot that becomes free goes to the waiting
//! caller that holds the fewest slots, so a caller with many requests never keeps out a caller with
//! few.
//!
//! A request for many slots (a large message) fits more rarely than one for few. Smaller requests
//! may overtake it for a quarter of its maximum wait ([`FairBounds::wait`]). After that, free slots
//! are reserved for it. Each caller gets at most one such reservation in that time.
//!
//! A holder that needs more slots ([`Need::More`]) waits with slots in its hands. So that holders
//! never wait for each other, one of them at a time may exceed the bounds.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};

use crate::Caller;

/// The bounds of a [`FairLimiter`].
#[derive(Clone, Copy, Debug)]
pub struct FairBounds {
    /// The bounded resource, as it follows "more than 8" in errors: for example "requests are in
    /// flight".
    pub what: &'static str,
    /// The name of the setting for the total, for errors.
    pub total_setting: &'static str,
    /// The name of the setting for each caller, for errors.
    pub per_caller_setting: &'static str,
    /// Slots in total.
    pub total: usize,
    /// Slots of one caller. Callers on this machine without a token are bounded by the total alone.
    pub per_caller: usize,
    /// Largest number of slots that callers may wait for, in total. One caller can wait for at most
    /// its own bound, unless [`FairLimiter::with_queue_per_caller`] sets another number.
    /// [`usize::MAX`] means no limit, also for one caller: for requests that hold nothing while
    /// they wait, and whose number has a limit of its own.
    pub queued: usize,
    /// Longest wait of a caller for a slot; then it is refused.
    pub wait: Duration,
}

/// Shares a bounded number of slots between callers; see the [module](self). Cheap to clone.
#[derive(Clone, Debug)]
pub struct FairLimiter {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    bounds: FairBounds,
    queued_per_caller: usize,
    state: Mutex<SlotUsage>,
}

/// The table has entries only for callers that hold or await slots, so it is bounded by both bounds
/// together.
#[derive(Debug, Default)]
struct SlotUsage {
    used: usize,
    queued: usize,
    callers: HashMap<Caller, Share>,
    waiting: Vec<Waiter>,
    next_ticket: u64,
    /// Whether a holder has taken slots over the bounds.
    exceeded: bool,
}

#[derive(Debug, Default)]
struct Share {
    used: usize,
    queued: usize,
    /// Time at which a waiter of the caller last got reserved slots.
    favoured: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    caller: Caller,
    weight: usize,
    need: Need,
    since: Instant,
    hand_over: oneshot::Sender<Slot>,
}

/// What a request for slots follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The caller's request holds no slots of the limiter.
    First,
    /// It holds some, and cannot finish without more.
    More,
}

/// Whether a request may take slots that are reserved for a larger one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overtaking {
    Allowed,
    Refused,
}

/// Slots that a caller holds, until this is dropped.
#[derive(Debug)]
pub struct Slot {
    shared: Arc<Shared>,
    caller: Caller,
    weight: usize,
    /// Whether these slots exceed the bounds; see [`Need::More`].
    exceeds: bool,
}

/// A slot that its request can release for a while; see [`ReturnableSlot::released_while`].
#[derive(Debug, Default)]
pub struct ReturnableSlot(Mutex<Option<Slot>>);

impl ReturnableSlot {
    /// Holds `slot`, if there is one.
    #[must_use]
    pub fn new(slot: Option<Slot>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(slot)))
    }

    /// Returns whether a slot is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Holds a slot from now on.
    pub fn hold(&self, slot: Slot) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(slot);
    }

    /// Takes the place out, for another holder.
    #[must_use]
    pub fn take(&self) -> Option<Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Gives the slot of `held` back, waits, and takes a slot again as [`FairLimiter::enter`] does.
    /// Without a slot it only waits.
    ///
    /// # Errors
    /// Returns an error if a bound is reached after the wait; it says which.
    pub async fn released_while<T>(
        held: &Weak<Self>,
        wait: impl Future<Output = T>,
    ) -> Result<T, Full> {
        let Some(slot) = held.upgrade().and_then(|held| held.take()) else {
            return Ok(wait.await);
        };
        let limiter = FairLimiter { shared: slot.shared.clone() };
        let caller = slot.caller.clone();
        let weight = slot.weight;
        drop(slot);
        let done = wait.await;
        let slot = limiter.enter(&caller, weight).await?;
        // A request that has ended meanwhile holds nothing any more.
        if let Some(held) = held.upgrade() {
            held.hold(slot);
        }
        Ok(done)
    }
}

/// Why a caller got no slot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// The caller holds as many slots as one caller may hold.
    #[error("more than {max} {what} for one caller ({setting})")]
    Caller {
        /// The bound.
        max: usize,
        /// The bounded resource.
        what: &'static str,
        /// The setting of this bound.
        setting: &'static str,
    },
    /// All callers together hold all slots.
    #[error("more than {max} {what} ({setting})")]
    Total {
        /// The bound.
        max: usize,
        /// The bounded resource.
        what: &'static str,
        /// The setting of this bound.
        setting: &'static str,
    },
    /// The caller may never hold so many.
    #[error("{bytes} bytes of memory are more than {max} ({setting})")]
    TooLarge {
        /// The bytes of the request.
        bytes: usize,
        /// The bound.
        max: usize,
        /// The setting of this bound.
        setting: &'static str,
    },
}

impl FairLimiter {
    /// Creates a limiter with nothing in use. A bound per caller above the total has no effect.
    #[must_use]
    pub fn new(bounds: FairBounds) -> Self {
        let per_caller = bounds.per_caller.min(bounds.total);
        let bounds = FairBounds { per_caller, ..bounds };
        let queued_per_caller = if bounds.queued == usize::MAX { usize::MAX } else { per_caller };
        let shared = Shared { bounds, queued_per_caller, state: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Returns a new limiter with the same bounds, for slots of which one caller may wait for more
    /// than it may hold.
    #[must_use]
    pub fn with_queue_per_caller(self, queued_per_caller: usize) -> Self {
        let bounds = self.shared.bounds;
        Self { shared: Arc::new(Shared { bounds, queued_per_caller, state: Mutex::default() }) }
    }

    /// Takes `weight` slots at once. More than a caller's bound counts as that bound, so that the
    /// largest request passes when its caller holds nothing else.
    ///
    /// # Errors
    /// Returns an error if a bound is reached; it says which.
    pub fn try_enter(&self, caller: &Caller, weight: usize) -> Result<Slot, Full> {
        let mut state = self.shared.state();
        let weight = self.shared.clamped(caller, weight);
        self.shared.take(&mut state, caller, weight, Overtaking::Refused)
    }

    /// Enters as [`Self::try_enter`] does, but waits up to [`FairBounds::wait`] for slots if the
    /// queue has room. Dropping the future is safe at any time.
    ///
    /// # Errors
    /// Returns an error if a bound is still reached after the wait, or if the queue is full.
    pub async fn enter(&self, caller: &Caller, weight: usize) -> Result<Slot, Full> {
        self.enter_within(caller, weight, Need::First, self.shared.bounds.wait).await
    }

    /// Enters as [`Self::enter`] does, but waits up to `wait`.
    ///
    /// # Errors
    /// Returns an error as [`Self::enter`] does.
    pub async fn enter_within(
        &self,
        caller: &Caller,
        weight: usize,
        need: Need,
        wait: Duration,
    ) -> Result<Slot, Full> {
        let bounds = &self.shared.bounds;
        let (full, ticket, slot) = {
            let mut state = self.shared.state();
            let weight = self.shared.clamped(caller, weight);
            let full = match self.shared.take(&mut state, caller, weight, Overtaking::Refused) {
                Ok(slot) => return Ok(slot),
                Err(_) if need == Need::More && !state.exceeded => {
                    return Ok(self.shared.give_over(&mut state, caller.clone(), weight));
                }
                Err(full) => full,
            };
            let max =
                if caller.is_bounded() { self.shared.queued_per_caller } else { bounds.queued };
            let queued = state.callers.get(caller).map_or(0, |share| share.queued);
            // A large request may fill the queue alone, so requests that wait because of its
            // reservation may use as much room again.
            let times = if self.shared.has_room(&state, caller, weight) { 2 } else { 1 };
            if wait.is_zero()
                || state.queued.saturating_add(weight) > bounds.queued.saturating_mul(times)
                || queued.saturating_add(weight) > max.saturating_mul(times)
            {
                // No request is refused because of another's reservation.
                return self.shared.take(&mut state, caller, weight, Overtaking::Allowed);
            }
            let (hand_over, slot) = oneshot::channel();
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.queued += weight;
            state.callers.entry(caller.clone()).or_default().queued += weight;
            let since = Instant::now();
            let caller = caller.clone();
            state.waiting.push(Waiter { ticket, caller, weight, need, since, hand_over });
            (full, ticket, slot)
        };
        let _leave = LeaveQueue { shared: &self.shared, ticket };
        match tokio::time::timeout(wait, slot).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(full),
        }
    }

    /// Returns how many slots this caller can hold at once.
    #[must_use]
    pub fn bound_of(&self, caller: &Caller) -> usize {
        self.shared.bound_of(caller)
    }

    /// Returns the bounds.
    #[must_use]
    pub fn bounds(&self) -> &FairBounds {
        &self.shared.bounds
    }

    /// Slots in use by all callers.
    #[must_use]
    pub fn used(&self) -> usize {
        self.shared.state().used
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, SlotUsage> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bound_of(&self, caller: &Caller) -> usize {
        if caller.is_bounded() { self.bounds.per_caller } else { self.bounds.total }
    }

    fn clamped(&self, caller: &Caller, weight: usize) -> usize {
        weight.min(self.bound_of(caller)).max(1)
    }

    fn take(
        self: &Arc<Self>,
        state: &mut SlotUsage,
        caller: &Caller,
        weight: usize,
        overtaking: Overtaking,
    ) -> Result<Slot, Full> {
        let FairBounds { what, total, total_setting, per_caller_setting, .. } = self.bounds;
        let used = state.callers.get(caller).map_or(0, |share| share.used);
        let max = self.bound_of(caller);
        if used + weight > max && max < total {
            return Err(Full::Caller { max, what, setting: per_caller_setting });
        }
        if state.used + weight > total {
            return Err(Full::Total { max: total, what, setting: total_setting });
        }
        let is_refused = overtaking == Overtaking::Refused;
        if is_refused && self.leaves_to_larger(state, &self.overdue(state), caller, weight) {
            return Err(if max < total {
                Full::Caller { max, what, setting: per_caller_setting }
            } else {
                Full::Total { max: total, what, setting: total_setting }
            });
        }
        Ok(self.give(state, caller.clone(), weight))
    }

    /// Returns whether this number of slots is free for the caller.
    fn has_room(&self, state: &SlotUsage, caller: &Caller, weight: usize) -> bool {
        state.used + weight <= self.bounds.total
            && state.used_by(caller) + weight <= self.bound_of(caller)
    }

    fn give(self: &Arc<Self>, state: &mut SlotUsage, caller: Caller, weight: usize) -> Slot {
        state.used += weight;
        if let Some(share) = state.callers.get_mut(&caller) {
            share.used += weight;
        } else {
            let share = Share { used: weight, ..Share::default() };
            state.callers.insert(caller.clone(), share);
        }
        Slot { shared: self.clone(), caller, weight, exceeds: false }
    }

    /// Gives slots over the bounds, for [`Need::More`].
    fn give_over(self: &Arc<Self>, state: &mut SlotUsage, caller: Caller, weight: usize) -> Slot {
        state.exceeded = true;
        let mut slot = self.give(state, caller, weight);
        slot.exceeds = true;
        slot
    }

    /// Returns the next waiter to serve: of those that fit, the first waiter of the caller with the
    /// fewest slots.
    fn next(&self, state: &SlotUsage) -> Option<usize> {
        let overdue = self.overdue(state);
        let fitting = state.waiting.iter().enumerate().filter(|(_, waiter)| {
            (waiter.need == Need::More && !state.exceeded)
                || self.has_room(state, &waiter.caller, waiter.weight)
                    && !self.leaves_to_larger(state, &overdue, &waiter.caller, waiter.weight)
        });
        fitting.min_by_key(|(_, waiter)| state.used_by(&waiter.caller)).map(|(index, _)| index)
    }

    /// Returns, for each caller, the first waiter that was overtaken for long enough; oldest first.
    fn overdue<'a>(&self, state: &'a SlotUsage) -> Vec<&'a Waiter> {
        let mut callers = HashSet::new();
        let overdue = state.waiting.iter().filter(|waiter| self.is_overdue(state, waiter));
        overdue.filter(|waiter| callers.insert(&waiter.caller)).collect()
    }

    fn is_overdue(&self, state: &SlotUsage, waiter: &Waiter) -> bool {
        let favoured = state.callers.get(&waiter.caller).and_then(|share| share.favoured);
        let since = favoured.map_or(waiter.since, |favoured| favoured.max(waiter.since));
        waiter.weight > 1 && since.elapsed() >= self.patience()
    }

    /// Returns whether `weight` free slots are reserved for a larger request that has waited too
    /// long: the first such request that its caller's bound allows, or one of the same caller.
    fn leaves_to_larger(
        &self,
        state: &SlotUsage,
        overdue: &[&Waiter],
        caller: &Caller,
        weight: usize,
    ) -> bool {
        let first =
            overdue.iter().find(|larger| larger.weight <= self.room_of(state, &larger.caller));
        let room = self.bounds.total.saturating_sub(state.used);
        if first.is_some_and(|first| first.weight > weight && first.weight + weight > room) {
            return true;
        }
        let own = overdue.iter().find(|larger| larger.caller == *caller);
        own.is_some_and(|own| {
            own.weight > weight && own.weight + weight > self.room_of(state, caller)
        })
    }

    /// Returns the slots that the bound of a caller leaves to it.
    fn room_of(&self, state: &SlotUsage, caller: &Caller) -> usize {
        self.bound_of(caller).saturating_sub(state.used_by(caller))
    }

    /// Returns how long smaller requests may overtake a larger one.
    fn patience(&self) -> Duration {
        self.bounds.wait / 4
    }

    /// Assigns free slots to waiters. The caller must hand them over after it has released the
    /// lock.
    fn serve(self: &Arc<Self>, state: &mut SlotUsage) -> Vec<(oneshot::Sender<Slot>, Slot)> {
        let mut served = Vec::new();
        while let Some(index) = self.next(state) {
            let was_overdue = self.is_overdue(state, &state.waiting[index]);
            let Waiter { caller, weight, hand_over, .. } = state.remove(index);
            let slot = if self.has_room(state, &caller, weight) {
                self.give(state, caller, weight)
            } else {
                self.give_over(state, caller, weight)
            };
            if was_overdue && let Some(share) = state.callers.get_mut(&slot.caller) {
                share.favoured = Some(Instant::now());
            }
            served.push((hand_over, slot));
        }
        served
    }
}

impl SlotUsage {
    fn used_by(&self, caller: &Caller) -> usize {
        self.callers.get(caller).map_or(0, |share| share.used)
    }

    fn remove(&mut self, index: usize) -> Waiter {
        let waiter = self.waiting.remove(index);
        self.queued -= waiter.weight;
        if let Some(share) = self.callers.get_mut(&waiter.caller) {
            share.queued -= waiter.weight;
        }
        self.remove_if_idle(&waiter.caller);
        waiter
    }

    /// Removes the share of a caller that neither uses nor waits for slots.
    fn remove_if_idle(&mut self, caller: &Caller) {
        if self.callers.get(caller).is_some_and(|share| share.used == 0 && share.queued == 0) {
            self.callers.remove(caller);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.exceeded &= !self.exceeds;
        state.used -= self.weight;
        if let Some(share) = state.callers.get_mut(&self.caller) {
            share.used -= self.weight;
        }
        state.remove_if_idle(&self.caller);
        let served = self.shared.serve(&mut state);
        drop(state);
        hand_over(served);
    }
}

/// Hands slots to waiters. If a waiter has just given up, its slot is dropped, which serves the
/// next waiter.
fn hand_over(served: Vec<(oneshot::Sender<Slot>, Slot)>) {
    for (waiter, slot) in served {
        drop(waiter.send(slot));
    }
}

/// Takes a waiter out of the queue when it no longer waits.
struct LeaveQueue<'a> {
    shared: &'a Arc<Shared>,
    ticket: u64,
}

impl Drop for LeaveQueue<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        let index = state.waiting.iter().position(|waiter| waiter.ticket == self.ticket);
        let Some(index) = index else { return };
        state.remove(index);
        // Its free slots are for other callers now.
        let served = self.shared.serve(&mut state);
        drop(state);
        hand_over(served);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Principal;

    #[tokio::test(start_paused = true)]
    async fn a_free_place_goes_to_the_caller_with_the_fewest() {
        let limiter = limiter(4, 3);
        let [ann, bob] = ["ann", "bob"].map(caller);
        let mut anns: Vec<_> = (0..3).map(|_| limiter.try_enter(&ann, 1).unwrap()).collect();
        let bobs = limiter.try_enter(&bob, 1).unwrap();
        let cleo = caller("cleo");
        let waits = [&ann, &bob, &cleo].map(|caller| spawn_enter(&limiter, caller, 1));
        tokio::task::yield_now().await;
        drop(anns.pop());
        tokio::task::yield_now().await;
        assert_eq!(
            waits.each_ref().map(tokio::task::JoinHandle::is_finished),
            [false, false, true]
        );
        drop(bobs);
        tokio::task::yield_now().await;
        assert_eq!(waits.each_ref().map(tokio::task::JoinHandle::is_finished), [false, true, true]);
        drop((anns, waits));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_at_its_bound_leaves_the_rest_to_others() {
        let limiter = limiter(4, 2);
        let [ann, bob] = ["ann", "bob"].map(caller);
        let slots: Vec<_> = (0..2).map(|_| limiter.try_enter(&ann, 1).unwrap()).collect();
        let refused = limiter.enter(&ann, 1).await.unwrap_err();
        assert_eq!(refused.to_string(), "more than 2 things are held for one caller (per_caller)");
        assert!(limiter.try_enter(&bob, 1).is_ok());
        drop(slots);
        assert!(limiter.try_enter(&ann, 1).is_ok());
        assert_eq!(limiter.used(), 0);
        assert_eq!(limiter.shared.state().callers.len(), 0, "callers without slots are forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_is_bounded_and_cancelled_requests_leave_it() {
        let limiter = limiter(2, 2);
        let [ann, bob] = ["ann", "bob"].map(caller);
        let held = limiter.try_enter(&ann, 2).unwrap();
        let waits: Vec<_> = (0..3).map(|_| spawn_enter(&limiter, &bob, 1)).collect();
        tokio::task::yield_now().await;
        assert_eq!(limiter.shared.state().queued, 2, "the third was refused at once");
        for wait in waits {
            assert!(wait.await.unwrap().is_err(), "nothing became free in time");
        }
        assert_eq!(limiter.shared.state().queued, 0);
        drop(held);
        assert_eq!(limiter.shared.state().callers.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_can_queue_more_than_it_may_hold_where_the_limiter_says_so() {
        let limiter = limiter(2, 1);
        let bounds = FairBounds { queued: 8, ..*limiter.bounds() };
        let limiter = FairLimiter::new(bounds).with_queue_per_caller(4);
        let [ann, bob] = ["ann", "bob"].map(caller);
        let held = limiter.try_enter(&ann, 1).unwrap();
        let waits: Vec<_> = (0..4).map(|_| spawn_enter(&limiter, &ann, 1)).collect();
        tokio::task::yield_now().await;
        assert_eq!(limiter.shared.state().queued, 4);
        assert!(limiter.enter(&ann, 1).await.is_err(), "her queue is full");
        assert!(limiter.enter(&bob, 1).await.is_ok(), "she leaves a slot to him");
        drop(held);
        for wait in waits {
            assert!(wait.await.unwrap().is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_for_others_can_leave_its_place_to_them() {
        let limiter = limiter(1, 1);
        let ann = caller("ann");
        let held = ReturnableSlot::new(Some(limiter.try_enter(&ann, 1).unwrap()));
        let weak = Arc::downgrade(&held);
        let waited = ReturnableSlot::released_while(&weak, async { limiter.used() }).await;
        assert_eq!((waited, limiter.used()), (Ok(0), 1), "the slot is taken again");
        let mut others = None;
        let taken = ReturnableSlot::released_while(&weak, async {
            others = Some(limiter.try_enter(&ann, 1).unwrap());
        });
        assert!(taken.await.is_err(), "another has taken it");
        drop(others);
        assert_eq!(limiter.used(), 0);
        // A request that has ended takes no slot.
        let held = ReturnableSlot::new(Some(limiter.try_enter(&ann, 1).unwrap()));
        let weak = Arc::downgrade(&held);
        ReturnableSlot::released_while(&weak, async { drop(held) }).await.unwrap();
        assert_eq!(limiter.used(), 0);
    }

    /// Small requests whose times overlap: without a bound, there is never room for a large one.
    #[tokio::test(start_paused = true)]
    async fn small_requests_overtake_a_large_one_only_for_a_while() {
        let limiter = limiter(4, 4);
        let smalls = [("bob", 0), ("cleo", 20), ("dan", 30)].map(|(name, start)| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(start)).await;
                while let Ok(_slot) = limiter.enter(&caller(name), 1).await {
                    tokio::time::sleep(Duration::from_millis(40)).await;
                }
            })
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let started = Instant::now();
        let large = limiter.enter(&caller("ann"), 4).await.expect("it is served in time");
        let waited = started.elapsed();
        assert!(waited >= Duration::from_millis(250), "smaller ones may overtake it for a while");
        assert!(waited < Duration::from_millis(350), "{waited:?}");
        drop(large);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(limiter.used() >= 2, "the small ones go on");
        smalls.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test(start_paused = true)]
    async fn slots_reserved_for_a_request_that_gave_up_go_to_others() {
        let limiter = limiter(4, 4);
        let held = limiter.try_enter(&caller("bob"), 1).unwrap();
        let large = spawn_enter(&limiter, &caller("ann"), 4);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(limiter.try_enter(&caller("cleo"), 1).is_err(), "left to the large one");
        let larger = limiter.try_enter(&caller("ann"), 4);
        assert!(larger.is_err());
        let small = spawn_enter(&limiter, &caller("cleo"), 1);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!small.is_finished());
        large.abort();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(small.is_finished() && small.await.unwrap().is_ok());
        drop(held);
    }

    #[tokio::test(start_paused = true)]
    async fn holders_never_wait_for_each_other() {
        let limiter = limiter(4, 4);
        let [ann, bob] = ["ann", "bob"].map(caller);
        let wait = Duration::from_secs(1);
        let anns = limiter.enter(&ann, 2).await.unwrap();
        let bobs = limiter.enter(&bob, 2).await.unwrap();
        // The first goes over the bound, the second waits for it.
        let more = limiter.enter_within(&ann, 2, Need::More, wait).await.unwrap();
        assert_eq!(limiter.used(), 6);
        let other = limiter.clone();
        let second =
            tokio::spawn(
                async move { other.enter_within(&caller("bob"), 2, Need::More, wait).await },
            );
        tokio::time::sleep(wait / 2).await;
        assert!(!second.is_finished());
        assert!(limiter.try_enter(&caller("cleo"), 1).is_err());
        drop((anns, more));
        let second = second.await.unwrap().unwrap();
        assert_eq!(limiter.used(), 4);
        drop((bobs, second));
        assert_eq!(limiter.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_may_be_unlimited() {
        let limiter =
            FairLimiter::new(FairBounds { queued: usize::MAX, ..*limiter(4, 4).bounds() });
        let held = limiter.try_enter(&caller("ann"), 4).unwrap();
        let waits: Vec<_> = (0..9).map(|_| spawn_enter(&limiter, &caller("ann"), 4)).collect();
        tokio::task::yield_now().await;
        drop(held);
        for wait in waits {
            assert!(wait.await.unwrap().is_ok(), "each waits for the one before");
        }
    }

    #[test]
    fn the_largest_weight_passes_alone() {
        let limiter = limiter(8, 4);
        let slot = limiter.try_enter(&caller("ann"), 100).unwrap();
        assert_eq!(limiter.used(), 4);
        assert!(limiter.try_enter(&caller("ann"), 1).is_err());
        drop(slot);
        assert!(limiter.try_enter(&Caller::Local, 100).is_ok());
    }

    #[test]
    fn addresses_count_by_network_and_loopback_by_the_total_alone() {
        let limiter = limiter(4, 1);
        fn at(address: &str) -> Caller {
            Caller::address(address.parse().unwrap())
        }
        let _one = limiter.try_enter(&at("2001:db8::1"), 1).unwrap();
        assert!(limiter.try_enter(&at("2001:db8::2"), 1).is_err());
        assert!(limiter.try_enter(&at("2001:db8:0:1::1"), 1).is_ok());
        assert_eq!(at("::ffff:192.0.2.1"), at("192.0.2.1"));
        let local: Vec<_> = (0..3).map(|_| limiter.try_enter(&at("127.0.0.1"), 1)).collect();
        assert!(local.iter().all(Result::is_ok));
        assert_eq!(
            limiter.try_enter(&at("::1"), 1).unwrap_err().to_string(),
            "more than 4 things are held (total)"
        );
    }

    fn spawn_enter(
        limiter: &FairLimiter,
        caller: &Caller,
        weight: usize,
    ) -> tokio::task::JoinHandle<Result<Slot, Full>> {
        let limiter = limiter.clone();
        let caller = caller.clone();
        tokio::spawn(async move { limiter.enter(&caller, weight).await })
    }

    fn caller(name: &str) -> Caller {
        Caller::Principal(Arc::new(Principal::new(None, name)))
    }

    fn limiter(total: usize, per_caller: usize) -> FairLimiter {
        FairLimiter::new(FairBounds {
            what: "things are held",
            total_setting: "total",
            per_caller_setting: "per_caller",
            total,
            per_caller,
            queued: total,
            wait: Duration::from_secs(1),
        })
    }
}
