//! Objects in memory.
//!
//! * A [`Cache`] holds the objects of one kind. A watch fills it, and so do the responses to writes, which may come in any order.
//! * [`Objects`] are what a snapshot shares with a cache. Sharing costs the same however many objects there are, and a snapshot stays as
//!   it was when the cache changes.
//! * An object is stored decoded, as compressed text, or as the reason why it cannot be read. Whoever asks for it does not notice the
//!   first two; an object that cannot be read is not there for whoever asks, and [`Objects::unreadable`] names it, so that nobody takes
//!   it for absent.
//! * [`Summaries`] are the part of each object that others depend on, where they do not depend on the whole.
//! * An [`Index`] knows who depends on which object.
//!
//! # Races, and why each is handled here
//!
//! * **A watch lags behind our own writes.** A response is stored at once, and an older version of an object never replaces a newer one
//!   ([`Version`]).
//! * **A response arrives after the watch has reported the deletion.** It must not bring the object back, since no watch event would
//!   remove it again. So the last deletions are remembered, and a response is refused if its object was deleted after the request was
//!   sent ([`Cache::set_response`]).
//! * **A watch begins anew with a list.** What was created and deleted meanwhile is unknown, so no response to an earlier request is
//!   stored after it.
//! * **A dependency changes while a reconcile runs that depends on it for the first time.** The index did not know of it, so it enqueued
//!   nobody. It remembers the latest changes, and [`Index::set`] says whether the reconcile has missed one.

mod cache;
mod compressed;
mod index;
mod key;
mod objects;
mod stored;
mod summaries;
mod version;

pub use cache::{Cache, Change, Layout, Sent};
pub use index::{Index, Moment};
pub use key::{Key, ObjectKey};
pub use objects::Objects;
pub use stored::Stored;
pub use summaries::Summaries;
pub use version::Version;
