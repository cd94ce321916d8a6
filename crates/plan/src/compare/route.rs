//! HTTPRoutes.

use longboat_api::{
    foreign::httproute::HTTPRoute,
    labels::{ROUTING_GROUP, value},
};

use super::{Compare, carry_over_metadata, stored, was_asked_for};

impl Compare for HTTPRoute {
    const SPEC: &'static str = "gateway.v1.HTTPRouteSpec";

    /// Rules must be equal: a rule or match that is no longer wanted must stop routing. Host names are compared only if the
    /// service sets some or did so before; otherwise the host names that others added to the route stay.
    fn content_differs(&self, live: &Self) -> bool {
        let mut present = live.spec.clone();
        if self.spec.hostnames.is_empty() && !was_asked_for(&live.metadata) {
            present.hostnames.clear();
        }
        value(&self.metadata, ROUTING_GROUP) != value(&live.metadata, ROUTING_GROUP)
            || stored(Self::SPEC, &self.spec) != stored(Self::SPEC, &present)
    }

    fn carry_over(&mut self, live: &Self) {
        let grouped = value(&self.metadata, ROUTING_GROUP).is_some();
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
