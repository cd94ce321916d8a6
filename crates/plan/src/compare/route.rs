//! HTTPRoutes.

use longboat_api::foreign::httproute::HTTPRoute;

use super::{Compare, carry_over_metadata, metadata_differs, same};
use crate::server_defaults;

impl Compare for HTTPRoute {
    /// Rules compare as a whole: a rule or match that is no longer wanted must stop routing. Host names are compared
    /// only where the service sets some; otherwise they are left to whoever adds them to the route.
    fn differs(&self, live: &Self) -> bool {
        let mut desired = self.spec.clone();
        server_defaults::http_route(&mut desired);
        let mut present = live.spec.clone();
        if desired.hostnames.is_empty() {
            present.hostnames.clear();
        }
        metadata_differs(&self.metadata, &live.metadata) || (desired != present && !same(&desired, &present))
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
        if self.spec.hostnames.is_empty() {
            self.spec.hostnames.clone_from(&live.spec.hostnames);
        }
    }

    fn fill_in_defaults(&mut self) {
        server_defaults::http_route(&mut self.spec);
    }
}
