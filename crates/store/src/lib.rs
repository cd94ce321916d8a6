//! Objects in memory.
//!
//! * A [`Cache`] holds the objects of one kind. A watch fills it, and so do the responses to writes, which may arrive in any
//!   order.
//! * [`Objects`] are the part of a cache that a snapshot shares. The cost of sharing does not depend on the number of
//!   objects, and a snapshot does not change with the cache.
//! * An object is stored decoded, as compressed text, or as the reason why it cannot be decoded. The reader does not notice
//!   the difference between the first two. An object that cannot be decoded looks absent to the reader, so
//!   [`Objects::unreadable`] lists such objects.
//! * [`Summaries`] are the parts of objects on which others depend, if they do not depend on the whole objects.
//! * An [`Index`] records which service depends on which objects.
//!
//! # Races, and why each is handled here
//!
//! * **A watch lags behind our own writes.** A response is stored at once, and an older version of an object never replaces a
//!   newer one ([`Version`]).
//! * **A response arrives after the watch has reported the deletion.** It must not bring the object back, because no watch
//!   event would remove it again. So the last deletions are remembered, and a response is refused if its object was deleted
//!   after the request was sent ([`Cache::set_response`]).
//! * **A watch restarts with a list.** It is unknown what was created and deleted meanwhile, so responses to earlier requests
//!   are no longer stored.
//! * **A dependency changes during the first reconcile that depends on it.** The index did not know about the dependency, so
//!   it enqueued nothing. It remembers the last changes, and [`Index::set`] returns whether the reconcile has missed one.

mod cache;
mod compressed;
mod deletions;
mod index;
mod objects;
mod stored;
mod summaries;
mod version;

pub use cache::{Cache, Change, Layout};
pub use deletions::DeletionMark;
pub use index::{Index, Moment};
pub use objects::Objects;
pub use stored::StoredObject;
pub use summaries::Summaries;
pub use version::Version;
