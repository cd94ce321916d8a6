//! The pages of the pickers of a process, on the port of the gateway or of the shared picker.

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use kube::Client;
use longboat_api::decisions::NO_PICKER;
use longboat_key::{Key, Name, Namespace};

use super::local::LocalPickers;
use crate::{
    core::Core,
    monitoring::{DECISIONS, page, plain},
    readers::{Readers, may_read},
};

/// The pages of pickers of several pools, for those who may read them: `/debug/decisions` has the decisions for all pools, and
/// `/pools/NAMESPACE/NAME` the pages of one pool's picker, such as `/pools/NAMESPACE/NAME/metrics`.
pub struct Pages(Option<Readers>);

// === impl Pages ===

impl Pages {
    /// The pages are for those whom this API server lets read them.
    pub fn new(client: Client) -> Self {
        Self(Some(Readers::new(client)))
    }

    /// The pages are for everybody who reaches them.
    pub(crate) fn open() -> Self {
        Self(None)
    }

    /// Whether the sender of these headers may read pages.
    ///
    /// # Errors
    ///
    /// The status of the response.
    pub(crate) async fn may_read(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        may_read(self.0.as_ref(), headers).await
    }

    /// Returns a page of pickers, or `None` if the request is for another page.
    pub async fn of_pools<B: Sync>(
        &self,
        local: &LocalPickers,
        request: &Request<B>,
    ) -> Option<Response<Full<Bytes>>> {
        let (pool, path) = picker_page(request.uri().path())?;
        let pickers = local.serving(pool.as_ref());
        if pool.is_some() && pickers.is_empty() {
            return Some(plain(StatusCode::NOT_FOUND, NO_PICKER));
        }
        let cores: Vec<&Core> = pickers.iter().map(|picker| &*picker.core).collect();
        Some(page(&cores, self.0.as_ref(), path, request).await)
    }
}

/// Returns the pool and the picker's own path of a page. Decisions may be those of all pools.
fn picker_page(path: &str) -> Option<(Option<Key>, &str)> {
    if path == DECISIONS {
        return Some((None, path));
    }
    let (namespace, rest) = path.strip_prefix("/pools/")?.split_once('/')?;
    let (name, _) = rest.split_once('/')?;
    Some((Some(Key::new(Namespace(namespace), Name(name))), &rest[name.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_pickers_are_told_from_those_of_the_pod() {
        let pool = || Some(Key::new(Namespace("ns"), Name("pool")));
        for (path, expected) in [
            ("/debug/decisions", Some((None, "/debug/decisions"))),
            ("/pools/ns/pool/metrics", Some((pool(), "/metrics"))),
            ("/pools/ns/pool/debug/decisions", Some((pool(), "/debug/decisions"))),
            ("/pools/ns/pool", None),
            ("/pools/", None),
            ("/metrics", None),
        ] {
            assert_eq!(picker_page(path), expected, "{path}");
        }
    }
}
