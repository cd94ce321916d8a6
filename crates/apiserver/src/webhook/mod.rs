//! Calls to admission and conversion webhooks.

mod admission;
#[cfg(test)]
mod calls;
mod clients;
mod conversion;
mod hooks;
mod trust;

pub(crate) use admission::{mutate, validate};
pub(crate) use clients::WebhookClients;
pub(crate) use conversion::convert;
