//! The identity of an object: its namespace, name and uid, and which names Kubernetes accepts ([`names`]).
//!
//! [`Namespace`], [`Name`] and [`Uid`] are types of their own, because a function that takes them as strings accepts them in
//! the wrong order. The type parameter says how the text is stored:
//!
//! * `Name` shares its text. [`Key`]s, which are stored in many places, have such names.
//! * `Name<&str>` borrows its text. Functions that only look something up take such names, so that a lookup copies nothing.

mod key;
pub mod names;
mod nearest;
mod text;

pub use key::{Key, ObjectKey};
pub use nearest::{MAX_COMPARED, nearest};
pub use text::{Name, Namespace, Uid};
