//! The page of `up` and `dashboard`: services, replicas, decisions and a playground in a browser.
//!
//! [`Server`] serves it on a loopback port. The page is static modules (`web/`, embedded), which ask the API below `/api/`;
//! `guard` decides who may. What a command of the binary knows, as the tree or `explain`, comes through [`Cluster`]; the rest
//! is read here, with the rights of the kubeconfig.

mod answer;
mod assets;
mod chat;
mod cluster;
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

pub use cluster::{Address, Cluster, Head, Picture, ServiceName};
pub use reach::Reach;
pub use server::{BindError, Server};
