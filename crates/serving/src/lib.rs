//! OpenAI's API as vLLM serves it, for any model.
//!
//! This crate contains everything between the socket and the model: routes, request bodies, vLLM's checks and error
//! messages, and the forms of whole and streamed responses for chat, completions and responses. A [`Model`] gets a checked
//! [`Job`] and returns a stream of [`Event`]s; it never sees HTTP. The simulator is one such model.
//!
//! This crate refuses a field that a [`Job`] cannot express. If a model does not support a field of the job, it refuses the
//! job when it starts.

mod adapters;
mod answers;
mod api_keys;
mod body;
mod chat;
mod clock;
mod completions;
mod embeddings;
mod encoding_metrics;
mod fields;
mod flags;
mod ids;
mod job;
pub mod kv_events;
mod layout;
mod logprobs;
mod media;
mod messages;
mod metrics;
mod model;
mod prompt;
mod purpose;
mod refusal;
mod reply;
mod responses;
mod router;
mod sampling;
mod server;
mod server_args;
mod shape;
mod sse;
mod tools;
mod transfer;
mod transfer_metrics;
mod vectors;

pub use adapters::allows_lora_updates;
pub use api_keys::ApiKeys;
pub use encoding_metrics::Encodings;
pub use flags::{ArgsError, CommandLine, Flag};
pub use layout::Layout;
pub use media::{Item, Media, Modality};
pub use messages::{Call, Message, Role};
pub use metrics::Metrics;
pub use model::{Adapter, Card, Event, Job, JobStart, Model, Prompt, Stop, Token};
pub use purpose::Purpose;
pub use refusal::Refusal;
pub use router::{job_of, router};
pub use sampling::Sampling;
pub use server::{ListenOptions, RunError, listen, serve};
pub use server_args::{ENGINE_VERSION, ServerArgs};
pub use shape::Shape;
pub use tools::{Choice, Tool, Tools};
pub use transfer::{Handover, Part, Remote, prefilled};
pub use transfer_metrics::Transfers;
pub use vectors::{Vectors, normalise};
