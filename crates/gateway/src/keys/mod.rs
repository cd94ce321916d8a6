//! API keys: who may ask which model, and how much. Off unless a service or a Gateway asks for keys.
//!
//! A Secret with the label [`LABEL`] is a key with its limits ([`secret`]). The table of keys is compiled from the Secrets
//! with every other table, so a key rotates without a restart. What a key has used ([`budget`]) is kept beside the tables, by
//! the name of the Secret.

mod budget;
mod copy;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed;
mod report;
mod scope;
mod secret;
mod table;
mod usage;

pub(crate) use self::{
    budget::KeyState,
    copy::{KeyCopy, TYPE as COPY_TYPE, secrets as copied_secrets},
    scope::{KeyScope, KeyedRoute, KeyedServices},
    secret::hash_keys,
    table::{ApiKey, KeyTable, RefusedKeys},
    usage::{BYTES_PER_TOKEN, Tokens, UsageReader},
};
pub use self::{
    budget::{KeyLimits, KeyUsage},
    report::KeyReport,
    secret::LABEL,
    table::api_key_problems,
};
