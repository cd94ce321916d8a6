//! gRPC health checks.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};

use crate::core::Core;

/// Answers every service name alike, as the reference does without leader election.
pub(crate) struct HealthService {
    pub(crate) core: Arc<Core>,
    /// With leader election, `liveness` is always fine, so that a follower is not restarted.
    pub(crate) always_live: bool,
}

impl HealthService {
    pub(crate) fn server(core: &Arc<Core>, always_live: bool) -> HealthServer<Self> {
        HealthServer::new(Self { core: Arc::clone(core), always_live })
    }
}

#[tonic::async_trait]
impl Health for HealthService {
    type WatchStream = futures::stream::Empty<Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let live = self.always_live && request.get_ref().service == "liveness";
        let status =
            if live || self.core.is_serving() { ServingStatus::Serving } else { ServingStatus::NotServing };
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("watch is not implemented"))
    }
}
