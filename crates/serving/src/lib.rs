//! OpenAI's API as vLLM serves it, in front of any model.
//!
//! This crate owns everything between the socket and the model: routes, request bodies, the checks that vLLM makes and
//! its error texts, and the forms of whole and streamed answers for chat, completions and responses. A [`Model`] gets a
//! checked [`Job`] and gives a stream of [`Event`]s; it never sees HTTP. The simulator is one model.
//!
//! A field that no model could honour through [`Job`] is refused here by name. A field that a model does not honour is
//! the model's to refuse when the job starts.

mod adapters;
mod answers;
mod body;
mod chat;
mod completions;
mod embeddings;
mod encodings;
mod fields;
mod flags;
mod job;
pub mod kv_events;
mod layout;
mod logprobs;
mod media;
mod messages;
mod metrics;
mod model;
mod purpose;
mod refusal;
mod reply;
mod responses;
mod router;
mod sampling;
mod server;
mod shape;
mod sse;
mod tools;
mod transfer;
mod transfers;

pub use embeddings::{Vectors, normalise};
pub use encodings::Encodings;
pub use flags::{ArgsError, CommandLine, Flag};
pub use layout::Layout;
pub use media::{Item, Media, Modality};
pub use messages::{Call, Message, Role};
pub use metrics::Metrics;
pub use model::{Adapter, Card, Event, Job, Model, Prompt, Started, Stop, Token};
pub use purpose::Purpose;
pub use refusal::Refusal;
pub use router::{job_of, router};
pub use sampling::Sampling;
pub use server::{Listening, RunError, listen, serve};
pub use shape::Shape;
pub use tools::{Choice, Tool, Tools};
pub use transfer::{Handover, Part, Remote};
pub use transfers::Transfers;
