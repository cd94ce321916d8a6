//! The order in which keys are taken, retries and counts.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{Load, Queue, ReconcileOutcome};
use crate::metrics::{Metrics, Worker};

fn queue<K: Clone + Eq + std::hash::Hash>() -> Queue<K> {
    let queue = Queue::new(Metrics::new().queue(Worker::Services));
    queue.start();
    queue
}

/// How many other keys are taken before this one. All of them fail.
async fn others_before(queue: &Queue<u32>, wanted: u32) -> usize {
    let mut others = 0;
    loop {
        let key = queue.next().await;
        if key == wanted {
            return others;
        }
        others += 1;
        queue.done(key, ReconcileOutcome::Failed, 0.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_key_does_not_wait_for_thousands_that_are_looked_at_again_or_that_fail() {
    let queue = queue();
    for key in 1..=2800 {
        queue.add_background(key);
    }
    queue.add(0);
    assert!(others_before(&queue, 0).await <= 1, "after a start");
    queue.done(0, ReconcileOutcome::Settled, 0.0);
    // All of them fail, and are due to be tried again at the same time.
    for _ in 0..2800 {
        let key = queue.next().await;
        queue.done(key, ReconcileOutcome::Failed, 0.0);
    }
    tokio::time::advance(Duration::from_hours(1)).await;
    queue.add(0);
    assert!(others_before(&queue, 0).await <= 1, "among retries");
    queue.done(0, ReconcileOutcome::Settled, 0.0);
    // A change event of a key that fails does not move it ahead, unless the object itself was changed.
    tokio::time::advance(Duration::from_hours(1)).await;
    for key in 1..=2800 {
        queue.add(key);
    }
    queue.add(0);
    assert!(others_before(&queue, 0).await <= 1, "among change events of failing keys");
    queue.done(0, ReconcileOutcome::Settled, 0.0);
    queue.add_changed(2800);
    assert!(others_before(&queue, 2800).await <= 1, "the one that was mended");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_leaves_a_key_among_the_changes() {
    let queue = queue();
    for key in 1..=100 {
        queue.add_background(key);
    }
    queue.add(0);
    others_before(&queue, 0).await;
    queue.done(0, ReconcileOutcome::Conflict, 0.0);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(others_before(&queue, 0).await <= 1);
}

#[tokio::test(start_paused = true)]
async fn changes_without_end_do_not_starve_the_background() {
    let queue = queue();
    queue.add_background(0);
    for key in 1..=100 {
        queue.add(key);
    }
    assert!(others_before(&queue, 0).await <= 4);
}

#[tokio::test(start_paused = true)]
async fn until_the_caches_are_filled_only_objects_that_changed_themselves_come_first() {
    let queue = Queue::new(Metrics::new().queue(Worker::Services));
    for key in 1..=100 {
        queue.add(key);
    }
    queue.add_changed(0);
    queue.start();
    assert!(others_before(&queue, 0).await <= 1);
}

#[tokio::test(start_paused = true)]
async fn what_waits_runs_and_fails_is_counted() {
    let queue = queue();
    for key in ["a", "a", "b", "c"] {
        queue.add(key);
    }
    assert_eq!(queue.stats.adds.get(), 3);
    queue.next().await;
    tokio::time::advance(Duration::from_secs(2)).await;
    queue.next().await;
    tokio::time::advance(Duration::from_secs(1)).await;
    let (unfinished, longest) = (Duration::from_secs(4), Duration::from_secs(3));
    assert_eq!(queue.load(), Load { waiting: 1, unfinished, longest });
    queue.done("a", ReconcileOutcome::Settled, 0.0);
    queue.done("b", ReconcileOutcome::Failed, 0.0);
    assert_eq!(queue.load(), Load { waiting: 1, unfinished: Duration::ZERO, longest: Duration::ZERO });
    assert_eq!(queue.stats.retries.get(), 1);
}

#[tokio::test]
async fn a_key_added_twice_is_worked_on_once() {
    let queue = queue();
    queue.add("a");
    queue.add("a");
    queue.add("b");
    assert_eq!(queue.next().await, "a");
    assert_eq!(queue.next().await, "b");
    assert!(timeout(Duration::from_millis(10), queue.next()).await.is_err());
}

#[tokio::test]
async fn a_key_added_while_it_is_worked_on_comes_again_afterwards() {
    let queue = queue();
    queue.add("a");
    assert_eq!(queue.next().await, "a");
    queue.add("a");
    assert!(timeout(Duration::from_millis(10), queue.next()).await.is_err());
    queue.done("a", ReconcileOutcome::Settled, 0.0);
    assert_eq!(queue.next().await, "a");
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_changes_is_one_pass_and_one_more_for_what_came_during_it_and_then_nothing_is_polled() {
    let queue = queue();
    let burst = || {
        for _ in 0..1000 {
            queue.add("a");
        }
    };
    burst();
    for during in [true, false] {
        assert_eq!(queue.next().await, "a");
        if during {
            burst();
        }
        queue.done("a", ReconcileOutcome::Settled, 0.0);
    }
    assert!(timeout(Duration::from_hours(10_000), queue.next()).await.is_err());
}

#[tokio::test]
async fn a_closed_queue_takes_nothing() {
    let queue = queue();
    queue.close();
    queue.add("a");
    queue.open();
    queue.add("b");
    assert_eq!(queue.next().await, "b");
    assert!(timeout(Duration::from_millis(10), queue.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn failures_in_a_row_wait_longer_and_longer() {
    let queue = queue();
    queue.add("a");
    let mut waits = Vec::new();
    for _ in 0..4 {
        let before = Instant::now();
        queue.next().await;
        waits.push(before.elapsed().as_millis());
        queue.done("a", ReconcileOutcome::Failed, 0.0);
    }
    assert_eq!(waits, [0, 20, 40, 80]);
}

#[tokio::test(start_paused = true)]
async fn a_change_ends_the_wait_of_a_failed_key() {
    let queue = queue();
    queue.add("a");
    for _ in 0..8 {
        queue.next().await;
        queue.done("a", ReconcileOutcome::Failed, 0.0);
    }
    let before = Instant::now();
    queue.add("a");
    queue.next().await;
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn success_starts_the_count_of_failures_anew() {
    let queue = queue();
    queue.add("a");
    for _ in 0..5 {
        queue.next().await;
        queue.done("a", ReconcileOutcome::Failed, 0.0);
    }
    queue.next().await;
    queue.done("a", ReconcileOutcome::Settled, 0.0);
    queue.add("a");
    queue.next().await;
    queue.done("a", ReconcileOutcome::Failed, 0.0);
    let before = Instant::now();
    queue.next().await;
    assert_eq!(before.elapsed(), Duration::from_millis(20));
}
