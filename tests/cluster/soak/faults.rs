//! What goes wrong, and when: a function of a seed, of what is asked, and of how often that was asked before. So the same seed
//! brings the same faults to the same requests, in whatever order they come.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};

/// One request in so many meets a fault.
const EACH: u32 = 8;
/// One watch in so many comes to a bad end; the others last.
const EACH_WATCH: u32 = 2;
/// How long a watch lasts at most that comes to one, in milliseconds.
const LIFETIME: u64 = 20_000;

/// What becomes of a request that is answered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server never hears of it: the connection breaks.
    Reset,
    /// It is done, and the connection breaks before anybody hears of that.
    Lost,
    /// It is done, and half of the answer arrives.
    Torn,
    /// It is done, and the answer says that it took too long.
    TimedOut,
    /// The server is asked for too much, and says when to come again.
    TooMany,
    /// The server has an error, and says so as API servers do.
    Broken,
    /// Something in between answers, in no language that a client knows.
    Gibberish,
    /// It takes so long until the server hears of it.
    Late(Duration),
    /// It is done at once, and its answer takes so long.
    Slow(Duration),
    /// It is done, somebody deletes what was written, and its answer takes so long: it says that there is what is gone.
    Undone(Duration),
}

/// What becomes of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// What it begins with is too long ago: it does not even begin.
    Gone,
    /// As many of them end.
    Closed,
    /// An event says that what it would go on with is too long ago.
    Expired,
    /// In the middle of a line.
    Torn,
    /// The connection breaks.
    Reset,
    /// Nothing arrives any more for a while, and then the connection breaks.
    Silent(Duration),
}

fn chance(seed: u64, asked: &str, nth: u64) -> StdRng {
    let mut hasher = DefaultHasher::new();
    (seed, asked, nth).hash(&mut hasher);
    StdRng::seed_from_u64(hasher.finish())
}

/// What becomes of the n-th request of this kind; nothing: it goes well.
pub(crate) fn of_request(seed: u64, asked: &str, nth: u64) -> Option<Fault> {
    let mut random = chance(seed, asked, nth);
    if random.random_range(0..EACH) > 0 {
        return None;
    }
    Some(match random.random_range(0..10) {
        0 => Fault::Reset,
        1 => Fault::Lost,
        2 => Fault::Torn,
        3 => Fault::TimedOut,
        4 => Fault::TooMany,
        5 => Fault::Broken,
        6 => Fault::Gibberish,
        7 => Fault::Late(Duration::from_millis(random.random_range(50..3000))),
        8 => Fault::Slow(Duration::from_millis(random.random_range(50..3000))),
        _ => Fault::Undone(Duration::from_millis(random.random_range(50..3000))),
    })
}

/// How the n-th watch of this kind ends, and after how long; nothing: as the server wants.
pub(crate) fn of_watch(seed: u64, asked: &str, nth: u64) -> Option<(End, Duration)> {
    let mut random = chance(seed, asked, nth);
    if random.random_range(0..EACH_WATCH) > 0 {
        return None;
    }
    let end = match random.random_range(0..6) {
        0 => End::Gone,
        1 => End::Closed,
        2 => End::Expired,
        3 => End::Torn,
        4 => End::Reset,
        _ => End::Silent(Duration::from_millis(random.random_range(500..5000))),
    };
    Some((end, Duration::from_millis(random.random_range(0..LIFETIME))))
}
