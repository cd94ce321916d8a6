//! Chooses the faults. A fault depends only on the seed, on the request, and on how often the same request was made before. So
//! the same seed gives the same requests the same faults, whatever their order.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};

/// One request in this many gets a fault.
const EACH: u32 = 8;
/// One watch in this many gets a fault.
const EACH_WATCH: u32 = 2;
/// The longest time before a watch's fault, in milliseconds.
const LIFETIME: u64 = 20_000;

/// A fault of a request that is not a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection breaks before the request reaches the server.
    Reset,
    /// The server carries out the request, and the connection breaks before the response.
    Lost,
    /// The server carries out the request, and half of the response arrives.
    Torn,
    /// The server carries out the request, and the response says that it timed out.
    TimedOut,
    /// The response is 429 Too Many Requests with a `Retry-After` header.
    TooMany,
    /// The response is a server error in the form of the Kubernetes API.
    Broken,
    /// A gateway on the way answers with an error page that is not JSON.
    Gibberish,
    /// The request reaches the server after this delay.
    Late(Duration),
    /// The server carries out the request at once, and the response arrives after this delay.
    Slow(Duration),
    /// The server carries out the write, and somebody deletes the object. The response, which says that the object exists,
    /// arrives after this delay.
    Undone(Duration),
}

/// A fault of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The response is 410 Gone: the resourceVersion to start from is too old.
    Gone,
    /// The watch ends normally.
    Closed,
    /// An ERROR event says that the resourceVersion is too old.
    Expired,
    /// The watch ends in the middle of a line.
    Torn,
    /// The connection breaks.
    Reset,
    /// The watch delivers nothing for this time, and then the connection breaks.
    Silent(Duration),
}

fn chance(seed: u64, asked: &str, nth: u64) -> StdRng {
    let mut hasher = DefaultHasher::new();
    (seed, asked, nth).hash(&mut hasher);
    StdRng::seed_from_u64(hasher.finish())
}

/// Returns the fault of the n-th request of this kind, or `None` for no fault.
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

/// Returns the fault of the n-th watch of this kind and the time before it, or `None` for no fault.
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
