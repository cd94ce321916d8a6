//! Looks up host names with DNS. Without a cluster DNS, Services of the pod's own namespace are found by the pod's environment
//! variables.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;

/// The resolver.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// The namespace of this pod.
    pub(super) namespace: Arc<str>,
}

impl tower_service::Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let namespace = Arc::clone(&self.namespace);
        Box::pin(async move {
            let error = match tokio::net::lookup_host((name.as_str(), 0)).await {
                Ok(found) => return Ok(found.collect::<Vec<_>>().into_iter()),
                Err(error) => error,
            };
            let address = service(name.as_str(), &namespace)
                .and_then(|variable| std::env::var(variable).ok())
                .and_then(|ip| ip.parse::<IpAddr>().ok());
            address.map(|ip| vec![SocketAddr::new(ip, 0)].into_iter()).ok_or(error)
        })
    }
}

/// The name of the variable with the address of the Service `NAME.NAMESPACE.svc…`. Returns `None` for any other host.
fn service(host: &str, namespace: &str) -> Option<String> {
    let mut labels = host.split('.');
    let (name, of) = (labels.next()?, labels.next()?);
    (of == namespace && labels.next() == Some("svc"))
        .then(|| format!("{}_SERVICE_HOST", name.to_ascii_uppercase().replace('-', "_")))
}

#[cfg(test)]
mod tests {
    use super::service;

    #[test]
    fn only_services_of_this_namespace_have_variables() {
        let variable = |host| service(host, "ns");
        assert_eq!(
            variable("qwen-tokenizer.ns.svc.cluster.local").as_deref(),
            Some("QWEN_TOKENIZER_SERVICE_HOST")
        );
        for host in ["qwen-tokenizer.other.svc.cluster.local", "qwen.ns.example.com", "localhost", ""] {
            assert_eq!(variable(host), None, "{host}");
        }
    }
}
