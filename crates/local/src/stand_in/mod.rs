//! Substitutes for platform objects that manifests refer to but do not contain: namespaces, Gateways, their classes,
//! Services, accounts of pods.
//!
//! On a cluster an administrator creates these objects. Locally they are missing, and a service would wait for them for
//! ever. So `up` creates substitutes that make sense on one machine, and reports them. It refuses the other references
//! before it writes anything.

mod choose;
mod error;
mod inventory;
mod references;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use kube::Client;
use longboat_manifest::Document;

use crate::apply::{self, Owner};
pub use error::StandInError;
use inventory::ObjectInventory;

/// The manifests, together with the substitutes.
#[derive(Debug)]
pub struct Substitution {
    /// The manifests to apply.
    pub documents: Vec<Document>,
    /// One sentence for each substitute, and for each port that was changed.
    pub notes: Vec<String>,
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
