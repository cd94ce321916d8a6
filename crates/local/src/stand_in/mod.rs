//! Platform objects that manifests refer to and do not hold: namespaces, Gateways, their classes, Services.
//!
//! On a cluster an administrator made them. Here nobody did, and a service that waits for one waits in vain. So `up` makes those
//! that mean something on one machine, says which, and refuses the others before anything is written.

mod choose;
mod held;
mod references;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use kube::Client;
use longboat_manifest::Document;
use serde_json::Value;

use crate::apply::{self, ApplyError};
use held::Held;

/// What manifests became.
#[derive(Debug)]
pub struct StoodIn {
    /// The manifests, as they are to be applied.
    pub documents: Vec<Document>,
    /// One sentence for each object that stands in, and for each port that moved.
    pub notes: Vec<String>,
}

/// What keeps objects from standing in.
#[derive(Debug, thiserror::Error)]
pub enum StandInError {
    /// Nothing on this machine can take the place of what is missing.
    #[error("{origin}: {sentence}")]
    Impossible {
        /// File, line and column of the reference.
        origin: String,
        /// What is missing, and what to do.
        sentence: String,
    },
    /// The world does not say what it holds.
    #[error("cannot read what is there already: {0}")]
    Read(#[from] kube::Error),
    /// An object is refused.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// Makes what `documents` refer to and neither they nor the world holds. The gateway listens on `address`.
pub(crate) async fn make(
    client: &Client,
    documents: &[Document],
    address: SocketAddr,
) -> Result<StoodIn, StandInError> {
    let held = Held::read(client).await?;
    let chosen = choose::all(documents, held, address.port(), &can_listen)?;
    for object in chosen.objects {
        apply::one(client, None, object).await?;
    }
    Ok(StoodIn { documents: chosen.documents, notes: chosen.notes })
}

/// Whether this process may listen on a port of this machine, and nobody else does.
fn can_listen(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// A text of an object by its JSON pointer; empty where there is none.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
