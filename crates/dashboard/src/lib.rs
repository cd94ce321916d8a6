//! The page of `up` and `dashboard`: services, replicas, decisions and a playground in a browser.
//!
//! [`Server`] serves it on a loopback port. The page is static modules (`web/`, embedded), which ask the API below `/api/`;
//! `guard` decides who may. What a command of the binary knows, as the tree or `explain`, comes through [`World`]; the rest
//! is read here, with the rights of the kubeconfig.

mod answer;
mod assets;
mod chat;
mod feed;
mod guard;
mod metrics;
mod objects;
pub mod picker;
pub mod probe;
pub mod reach;
mod replicas;
mod server;
mod tokens;
mod world;

pub use reach::Reach;
pub use server::{BindError, Server};
pub use world::{Address, Head, Picture, ServiceName, World};
