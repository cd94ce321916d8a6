//! HTTPRoutes.

use longboat_api::{foreign::httproute::HTTPRoute, labels::ROUTING_GROUP};

use super::{Compare, carry_over_metadata, metadata_differs, stored, was_asked_for};

impl Compare for HTTPRoute {
    const SPEC: &'static str = "gateway.v1.HTTPRouteSpec";

    /// Rules must be equal: a rule or match that is no longer wanted must stop routing. Host names are compared only if the
    /// service sets some or did so before; otherwise the host names that others added to the route stay.
    fn differs(&self, live: &Self) -> bool {
        let mut present = live.spec.clone();
        if self.spec.hostnames.is_empty() && !was_asked_for(&live.metadata) {
            present.hostnames.clear();
        }
        let group =
            |route: &Self| route.metadata.labels.as_ref().and_then(|all| all.get(ROUTING_GROUP).cloned());
        metadata_differs(&self.metadata, &live.metadata)
            || group(self) != group(live)
            || stored(Self::SPEC, &self.spec) != stored(Self::SPEC, &present)
    }

    fn carry_over(&mut self, live: &Self) {
        let grouped = self.metadata.labels.as_ref().is_some_and(|all| all.contains_key(ROUTING_GROUP));
        carry_over_metadata(&mut self.metadata, &live.metadata);
        // Only this controller sets the label of the group, so a service that left its group must lose the label.
        if let Some(labels) = self.metadata.labels.as_mut().filter(|_| !grouped) {
            labels.remove(ROUTING_GROUP);
        }
        if self.spec.hostnames.is_empty() && !was_asked_for(&live.metadata) {
            self.spec.hostnames.clone_from(&live.spec.hostnames);
        }
    }
}
