//! The dashboard of `up` and `dashboard`: services, replicas, decisions and a playground in a browser.
//!
//! [`Server`] serves it on a loopback port. The page consists of static modules (`web/`, embedded), which call the API below
//! `/api/`; `guard` controls the access. Results of commands of the binary, such as the tree or `explain`, come through
//! [`Cluster`]. This crate reads everything else itself, with the rights of the kubeconfig.

mod answer;
mod assets;
mod chat;
mod cluster;
mod feed;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod guard;
mod metrics;
mod objects;
mod owned;
mod page;
pub mod picker;
pub mod reach;
mod replicas;
mod server;
mod tokens;

pub use cluster::{Address, Cluster, Gpus, Head, Picture, Simulation};
pub use reach::{CONNECT_TIMEOUT, Reach, local_client};
pub use server::{BindError, Server};

#[cfg(test)]
mod corpus;

// The fuzz targets name this crate, and its tests share them.
#[cfg(test)]
extern crate self as longboat_dashboard;
