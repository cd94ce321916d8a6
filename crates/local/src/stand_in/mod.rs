//! Substitutes for platform objects that manifests refer to but do not contain: namespaces, Gateways, their classes,
//! Services, accounts of pods.
//!
//! On a cluster an administrator creates these objects. Locally they are missing, and a service would wait for them for
//! ever. So `up` creates substitutes that make sense on one machine, and reports them. It refuses the other references
//! before it writes anything.

mod choose;
mod inventory;
mod references;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use kube::Client;
use longboat_manifest::Document;
use serde_json::Value;

use crate::apply::{self, ApplyError, Owner};
use inventory::ObjectInventory;

/// The manifests, together with the substitutes.
#[derive(Debug)]
pub struct Substitution {
    /// The manifests to apply.
    pub documents: Vec<Document>,
    /// One sentence for each substitute, and for each port that was changed.
    pub notes: Vec<String>,
}

/// Why substitutes cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum StandInError {
    /// This machine has no substitute for a missing object.
    #[error("{origin}: {sentence}")]
    Impossible {
        /// File, line and column of the reference.
        origin: String,
        /// What is missing, and how to solve it.
        sentence: String,
    },
    /// The existing objects cannot be read.
    #[error("cannot read the existing objects: {0}")]
    Read(#[from] kube::Error),
    /// The server refused a substitute.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// Creates substitutes for the objects to which `documents` refer, and which neither `documents` nor the cluster contains.
/// The gateway listens on `address`.
pub(crate) async fn make(
    client: &Client,
    documents: &[Document],
    address: SocketAddr,
) -> Result<Substitution, StandInError> {
    let held = ObjectInventory::read(client).await?;
    let chosen = choose::all(documents, held, address, &can_listen)?;
    for object in chosen.objects {
        apply::one(client, Owner::Up, None, object).await?;
    }
    Ok(Substitution { documents: chosen.documents, notes: chosen.notes })
}

/// Whether this process may listen on a port of this machine that nobody else uses.
fn can_listen(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Returns a text of an object by its JSON pointer, or an empty text.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
