//! The same work on many things, on all processors.

use std::{num::NonZero, thread};

use parking_lot::Mutex;

/// Stack of a worker: schemas and templates nest deeply, and debug builds have large frames.
const STACK: usize = 8 << 20;
/// Fewer things than this are done at once: starting a worker takes as long as two or three of them.
const SEQUENTIAL_LIMIT: usize = 16;

/// Returns the results of `work` for `items`, in their order. A panic of a worker continues in the caller.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(items.len() / SEQUENTIAL_LIMIT);
    if workers < 2 {
        return items.iter().map(work).collect();
    }
    // Things differ in size: each worker takes a few at a time.
    let chunks = Mutex::new(items.chunks(SEQUENTIAL_LIMIT).enumerate());
    let take = || chunks.lock().next();
    let worker = || {
        let mut done = Vec::new();
        while let Some((place, chunk)) = take() {
            done.push((place, chunk.iter().map(&work).collect::<Vec<R>>()));
        }
        done
    };
    let mut all = thread::scope(|scope| {
        // A worker that cannot be started is missed by nobody: the caller works, too.
        let started: Vec<_> = (1..workers)
            .filter_map(|_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, worker).ok())
            .collect();
        let mut all = worker();
        for other in started {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    // Workers take chunks in the order of the input, and finish them in any order.
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().flat_map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests {
    use super::{SEQUENTIAL_LIMIT, map};

    #[test]
    fn results_come_in_the_order_of_the_things() {
        for count in [0, 1, SEQUENTIAL_LIMIT, 10 * SEQUENTIAL_LIMIT + 3] {
            let things: Vec<usize> = (0..count).collect();
            assert_eq!(map(&things, |thing| thing * 2), things.iter().map(|t| t * 2).collect::<Vec<_>>());
        }
    }
}
