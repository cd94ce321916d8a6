//! The autoscaler of the first group, in virtual time.

use std::time::Duration;

use longboat_autoscale::Scale;

use super::{Event, RunError, World, nanos};
use crate::{
    autoscaler::Queued,
    pool::{Member, PoolChange},
};

/// How long the autoscaler goes on if nothing happens: requests that wait longer will never be answered.
const MAX_IDLE: Duration = Duration::from_hours(1);

impl World<'_> {
    pub(super) fn autoscale(&mut self, now: u64) -> Result<(), RunError> {
        self.scrape(now);
        self.expire_waking(now);
        let own = self.own_members();
        let ready = own.iter().filter(|number| self.members[**number].is_ready).count();
        let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let scale = Scale { desired: count(own.len()), current: count(own.len()), ready: count(ready) };
        let queued = Queued { requests: self.queued() as u64, bytes: self.queued_bytes() };
        let members = self.members.iter().filter(|member| member.removed_at.is_none() && member.is_ready);
        let snapshots: Vec<_> = members.map(Member::snapshot).collect();
        let Some(autoscaler) = &mut self.autoscaler else { return Ok(()) };
        let desired = autoscaler.replicas(&snapshots, queued, scale, Duration::from_nanos(now));
        let desired = desired.map_err(RunError::Autoscaler)?;
        let next = now.saturating_add(nanos(autoscaler.interval()));
        let desired = usize::try_from(desired).unwrap_or_default();
        if desired != own.len() {
            self.last_progress = now;
            self.change(PoolChange::Replicas(desired), now);
        }
        let is_idle =
            self.open.len() == self.queued() && now.saturating_sub(self.last_progress) > nanos(MAX_IDLE);
        // Without this event the loop has none left, and the run ends.
        if !is_idle || self.has_arrivals {
            self.schedule_event(next, Event::Autoscale);
        }
        Ok(())
    }
}
