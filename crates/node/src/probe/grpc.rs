//! gRPC probes: like the kubelet, they call the standard health service without TLS.

use std::time::Duration;

use k8s_openapi::api::core::v1::GRPCAction;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Calls the service. Returns an error in the kubelet's words unless the response is SERVING.
pub(crate) async fn check(action: &GRPCAction, pod_ip: &str, limit: Duration) -> Result<(), String> {
    let address = format!("{pod_ip}:{}", action.port);
    let unreachable = || {
        let limit = longboat_quantity::duration::text(limit);
        format!("timeout: failed to connect service {address:?} within {limit}: context deadline exceeded")
    };
    let asked = async {
        let endpoint =
            Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
        // The kubelet tries again until the limit, so a refused connection reads as a timeout.
        let channel = endpoint.connect().await.map_err(|_| unreachable())?;
        let service = action.service.clone().unwrap_or_default();
        HealthClient::new(channel)
            .check(HealthCheckRequest { service })
            .await
            .map_err(|status| format!("health rpc probe failed: {}", status.message()))
    };
    let answer = tokio::time::timeout(limit, asked).await.map_err(|_| unreachable())??;
    match answer.into_inner().status() {
        ServingStatus::Serving => Ok(()),
        other => Err(format!("service unhealthy (responded with {:?})", other.as_str_name())),
    }
}
