//! Evictions, and properties that hold after any sequence of arrivals, ends and evictions.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Queue, from, settings};
use crate::flow::{ClosedBand, Eviction, EvictionOutcome, Lease};

const BLOCKED: ClosedBand = ClosedBand { priority: 0, ceiling: 1.0 };

/// Puts requests of these priorities in flight. Each has its index in the list as item.
fn in_flight(priorities: &[i32]) -> (Eviction<usize>, Vec<Lease>) {
    let mut eviction = Eviction::new(100);
    let leases = priorities.iter().enumerate().map(|(place, priority)| eviction.enter(*priority, place));
    let leases = leases.collect();
    (eviction, leases)
}

#[test]
fn the_lowest_priority_goes_first_and_of_these_the_newest() {
    let (mut eviction, leases) = in_flight(&[-1, -5, 0, -5]);
    assert_eq!(eviction.decide(BLOCKED, 2.0, 0), [3, 1], "two at once, though four would have to go");
    assert_eq!(eviction.decide(BLOCKED, 2.0, 5000), [] as [usize; 0], "they are not gone yet");
    assert_eq!(eviction.leave(leases[3], 5000), Some(EvictionOutcome::After(5000)));
    assert_eq!(eviction.leave(leases[1], 5010), Some(EvictionOutcome::After(5010)));
    assert_eq!(eviction.decide(BLOCKED, 2.0, 5109), [] as [usize; 0], "the saturation does not show it yet");
    assert_eq!(eviction.decide(BLOCKED, 2.0, 5110), [0]);
    assert_eq!(eviction.leave(leases[2], 5110), None, "it was not evicted");
    assert_eq!((eviction.in_flight(), eviction.evictable()), (1, 0));
}

#[test]
fn as_few_as_may_do_go_and_nobody_for_one_who_is_not_above_them() {
    let (mut eviction, _leases) = in_flight(&[-1, -2, -3, -4]);
    let like_me = ClosedBand { priority: -4, ceiling: 1.0 };
    assert_eq!(eviction.decide(like_me, 1.5, 0), [] as [usize; 0]);
    let above_one = ClosedBand { priority: -3, ceiling: 1.0 };
    assert_eq!(eviction.decide(above_one, 2.0, 0), [3], "the next is as important as those that wait");
    let (mut eviction, _leases) = in_flight(&[-1, -2, -3, -4]);
    assert_eq!(eviction.decide(BLOCKED, 1.0, 0), [3], "at the limit one is enough");
    for nonsense in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        let (mut eviction, _leases) = in_flight(&[-1]);
        assert_eq!(eviction.decide(BLOCKED, nonsense, 0), [] as [usize; 0], "{nonsense}");
    }
}

#[test]
fn a_victim_that_does_not_go_counts_as_gone_after_ten_seconds() {
    let (mut eviction, leases) = in_flight(&[-1, -2]);
    assert_eq!(eviction.decide(BLOCKED, 1.0, 0), [1]);
    assert_eq!((eviction.late(9_999), eviction.late(10_000)), (Vec::new(), vec![EvictionOutcome::Late]));
    assert_eq!(eviction.decide(BLOCKED, 1.0, 10_100), [0]);
    assert_eq!(eviction.leave(leases[1], 10_200), None, "it was counted already");
}

#[test]
fn the_highest_band_that_waits_asks_for_room() {
    let mut queue = Queue::new(settings(""));
    queue.provision([5, -3]);
    assert_eq!(queue.blocked(2.0), None, "nobody waits");
    queue.push(from("a", -3), 0, 0).unwrap();
    queue.push(from("a", 5), 1, 0).unwrap();
    assert_eq!(queue.blocked(0.5), None, "the pool has room");
    assert_eq!(queue.blocked(2.0), Some(ClosedBand { priority: 5, ceiling: 1.0 }));
}

/// An event in a pool.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A request of this priority comes.
    Comes(i32),
    /// The oldest request in flight is answered.
    Ends,
    /// Time passes, in milliseconds.
    Later(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (-3..3_i32).prop_map(Step::Comes),
        1 => Just(Step::Ends),
        2 => (0..200_u64).prop_map(Step::Later),
    ]
}

/// The most requests in flight.
const ROOM: usize = 4;
/// The most waiting requests.
const WAITING: usize = 6;

proptest! {
    #[test]
    fn with_eviction_no_request_is_lost_and_no_limit_exceeded(steps in prop::collection::vec(step(), 1..200)) {
        let mut queue = Queue::new(settings("flowControl: {enableEviction: true, maxRequests: 6, defaultRequestTTL: 1s}\n"));
        queue.provision(-3..3);
        let mut eviction: Eviction<u64> = Eviction::new(10);
        let mut running: BTreeMap<u64, (i32, Lease)> = BTreeMap::new();
        let (mut now, mut next) = (0, 0_u64);
        // Each request ends exactly once, in one of these ways.
        let (mut answered, mut full, mut expired, mut evicted) = (0, 0, 0, 0);
        for step in steps {
            match step {
                Step::Comes(priority) => {
                    next += 1;
                    if queue.push(from("f", priority), (next, priority), now).is_err() {
                        prop_assert_eq!(queue.len(), WAITING, "it is refused where the queue is full");
                        full += 1;
                    }
                }
                Step::Ends => {
                    if let Some((_, (_, lease))) = running.pop_first() {
                        eviction.leave(lease, now);
                        answered += 1;
                    }
                }
                Step::Later(ms) => now += ms,
            }
            while queue.expired(now, true).is_some() {
                expired += 1;
            }
            #[expect(clippy::cast_precision_loss, reason = "few requests")]
            let saturation = |running: usize| running as f64 / ROOM as f64;
            while let Some((id, priority)) = queue.pop(saturation(running.len()), now) {
                running.insert(id, (priority, eviction.enter(priority, id)));
            }
            if let Some(blocked) = queue.blocked(saturation(running.len())) {
                for victim in eviction.decide(blocked, saturation(running.len()), now) {
                    let (priority, lease) = running.remove(&victim).expect("a victim is in flight");
                    prop_assert!(priority < 0 && priority < blocked.priority);
                    prop_assert!(matches!(eviction.leave(lease, now), Some(EvictionOutcome::After(0))));
                    evicted += 1;
                }
            }
            prop_assert!(running.len() <= ROOM && queue.len() <= WAITING);
            prop_assert_eq!(eviction.in_flight(), running.len());
            let evictable = running.values().filter(|(priority, _)| *priority < 0).count();
            prop_assert_eq!(eviction.evictable(), evictable);
            let total = answered + full + expired + evicted + running.len() + queue.len();
            prop_assert_eq!(total as u64, next, "none is lost and none counts twice");
        }
    }
}
