//! The hosts files of pods: there is no DNS, so containers find the names of Services in `/etc/hosts`.
//!
//! There is one file for each namespace, because a name without a namespace means the pod's own. All pods of the namespace
//! mount it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use parking_lot::Mutex;

use crate::cache::Cache;
use crate::private;

/// Where containers look names up.
pub(crate) const HOSTS: &str = "/etc/hosts";
const CLUSTER_DOMAIN: &str = "cluster.local";

/// The hosts files of a node.
#[derive(Debug)]
pub(crate) struct HostsFiles {
    folder: PathBuf,
    services: Cache<Service>,
    /// The content of the file of each namespace that has had a pod.
    contents: Mutex<BTreeMap<String, String>>,
}

impl HostsFiles {
    /// Keeps the files in a folder, which exists.
    pub(crate) fn new(folder: PathBuf, services: Cache<Service>) -> Self {
        Self { folder, services, contents: Mutex::default() }
    }

    /// Returns the file of a namespace, which has the present Services.
    pub(crate) fn of(&self, namespace: &str) -> io::Result<PathBuf> {
        let mut contents = self.contents.lock();
        let content = contents.entry(namespace.to_owned()).or_default();
        self.update(namespace, content)?;
        Ok(self.folder.join(namespace))
    }

    /// Updates the files whenever a Service changes.
    pub(crate) async fn run(&self) {
        // Changes that come at the same time share one update.
        let mut changes = std::pin::pin!(self.services.changes().ready_chunks(64));
        while changes.next().await.is_some() {
            for (namespace, content) in &mut *self.contents.lock() {
                if let Err(error) = self.update(namespace, content) {
                    tracing::warn!(%error, namespace, "Cannot write the hosts file of pods.");
                }
            }
        }
    }

    fn update(&self, namespace: &str, content: &mut String) -> io::Result<()> {
        let machine = fs::read_to_string(HOSTS).unwrap_or_default();
        let new = format!(
            "{machine}\n# Services\n{}",
            lines(namespace, self.services.all().iter().map(Arc::as_ref))
        );
        if *content != new {
            overwrite(&self.folder.join(namespace), &new)?;
            *content = new;
        }
        Ok(())
    }
}

/// Replaces the content of a file. Containers have mounted the file itself, so it stays the same one, and it is never empty,
/// because a program may read it at any time.
fn overwrite(path: &Path, content: &str) -> io::Result<()> {
    let opened = OpenOptions::new().write(true).open(path);
    let mut file = private::if_found(opened)?.map_or_else(|| private::create_file(path), Ok)?;
    file.write_all(content.as_bytes())?;
    file.set_len(content.len() as u64)
}

/// Returns a line for each Service with a cluster IP, with the names that the DNS of a cluster has.
fn lines<'s>(namespace: &str, services: impl IntoIterator<Item = &'s Service>) -> String {
    let mut entries: Vec<_> = services
        .into_iter()
        .filter_map(|service| {
            let ip = service.spec.as_ref()?.cluster_ip.as_deref()?;
            let has_address = !ip.is_empty() && ip != "None";
            has_address.then(|| (service.namespace().unwrap_or_default(), service.name_any(), ip))
        })
        .collect();
    entries.sort();
    let mut text = String::new();
    for (of, name, ip) in entries {
        let short = if of == namespace { format!(" {name}") } else { String::new() };
        // A String takes every write.
        let _ = writeln!(text, "{ip} {name}.{of}.svc.{CLUSTER_DOMAIN} {name}.{of}.svc {name}.{of}{short}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_with_an_address_have_the_names_of_a_cluster() {
        let services: Vec<Service> = serde_json::from_value(json!([
            {"metadata": {"name": "b", "namespace": "other"}, "spec": {"clusterIP": "127.96.0.2"}},
            {"metadata": {"name": "a", "namespace": "own"}, "spec": {"clusterIP": "127.96.0.1"}},
            {"metadata": {"name": "headless", "namespace": "own"}, "spec": {"clusterIP": "None"}},
            {"metadata": {"name": "elsewhere", "namespace": "own"}, "spec": {"externalName": "example.com"}},
        ]))
        .unwrap();
        assert_eq!(
            lines("own", &services),
            "127.96.0.2 b.other.svc.cluster.local b.other.svc b.other\n\
             127.96.0.1 a.own.svc.cluster.local a.own.svc a.own a\n"
        );
    }

    #[test]
    fn a_file_that_is_mounted_gets_new_contents() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own");
        overwrite(&path, "a longer content").unwrap();
        let first = fs::metadata(&path).unwrap().ino();
        overwrite(&path, "a shorter one").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a shorter one");
        assert_eq!(fs::metadata(&path).unwrap().ino(), first);
    }
}
