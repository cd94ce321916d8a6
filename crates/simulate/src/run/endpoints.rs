//! The endpoints of the pool: they come, start, go and fail.

use std::{cmp::Reverse, time::Duration};

use longboat_scheduler::Slot;

use super::{Event, OpenRequest, RunError, Settings, World, nanos};
use crate::{
    autoscaler::AutoscalerSettings,
    pool::{MAX_ENDPOINTS, Member, PoolChange},
    rejection::Refusal,
};

/// Checks the pool and its changes. With an autoscaler, the numbers of endpoints are not known beforehand.
pub(super) fn check(settings: &Settings) -> Result<(), RunError> {
    let total: usize = settings.pool.iter().map(|group| group.replicas).sum();
    let replicas = settings.changes.iter().filter_map(|(_, change)| match change {
        PoolChange::Replicas(replicas) => Some(*replicas),
        PoolChange::Fail(_) => None,
    });
    let most = replicas
        .chain(settings.autoscaler.as_ref().map(AutoscalerSettings::max_endpoints))
        .fold(total, usize::max);
    if (total == 0 && settings.autoscaler.is_none()) || most > MAX_ENDPOINTS {
        return Err(RunError::Endpoints(if total == 0 { 0 } else { most }));
    }
    if settings.autoscaler.is_some() {
        return Ok(());
    }
    // The endpoints so far: whether they belong to the first group, and are there.
    let first = settings.pool.first().map_or(0, |group| group.replicas);
    let mut is_own: Vec<bool> = (0..total).map(|number| number < first).collect();
    for (at, change) in &settings.changes {
        match *change {
            PoolChange::Fail(number) if number >= is_own.len() => {
                return Err(RunError::NoEndpoint { at: *at, number, last: is_own.len().saturating_sub(1) });
            }
            PoolChange::Fail(number) => is_own[number] = false,
            PoolChange::Replicas(replicas) => {
                let present = is_own.iter().filter(|is_own| **is_own).count();
                is_own.iter_mut().filter(|is_own| **is_own).skip(replicas).for_each(|is_own| *is_own = false);
                is_own.extend((present..replicas).map(|_| true));
            }
        }
    }
    Ok(())
}

impl World<'_> {
    /// Updates the candidates whose changes a scrape has read.
    pub(super) fn scrape(&mut self, now: u64) {
        while let Some(&Reverse((due, number))) = self.unread.peek()
            && due <= now
        {
            self.unread.pop();
            self.members[number].publish();
            if let Some(place) = self.places[number] {
                self.candidates[place] = self.members[number].snapshot();
            }
        }
    }

    /// Adds a member that starts for this time.
    pub(super) fn add_member(&mut self, group: usize, now: u64, start: Duration) {
        let number = self.members.len();
        let slot = self.slots.take();
        let settings = (group, &self.settings.pool[group]);
        let mut member = Member::new(number, slot, settings, now, nanos(self.settings.scrape));
        member.is_ready = start.is_zero();
        self.members.push(member);
        self.places.push(None);
        if !start.is_zero() {
            self.schedule_event(now.saturating_add(nanos(start)), Event::Ready(number));
        }
    }

    pub(super) fn make_ready(&mut self, number: usize, now: u64) {
        self.members[number].is_ready = true;
        self.list_candidates();
        self.wake(now);
        self.dispatch_all(now);
    }

    /// Lists the candidates again. Done only when the pool changes.
    pub(super) fn list_candidates(&mut self) {
        self.candidates.clear();
        self.numbers.clear();
        for (number, member) in self.members.iter().enumerate() {
            self.places[number] = member.is_candidate().then_some(self.candidates.len());
            if member.is_candidate() {
                self.candidates.push(member.snapshot());
                self.numbers.push(number);
            }
        }
        let present = self.members.iter().filter(|member| member.removed_at.is_none()).count();
        self.most_endpoints = self.most_endpoints.max(present);
        self.wake_dispatchers();
    }

    pub(super) fn change(&mut self, change: PoolChange, now: u64) {
        match change {
            PoolChange::Fail(number) => {
                if self.members.get(number).is_none_or(|member| member.removed_at.is_some()) {
                    return;
                }
                self.members[number].leave(now);
                let is_there = |open: &OpenRequest| {
                    let at =
                        if open.is_prefilled { open.decode } else { open.prefill.unwrap_or(open.decode) };
                    open.request.is_none() && at == number
                };
                let mut lost: Vec<u64> =
                    self.open.iter().filter(|(_, open)| is_there(open)).map(|(id, _)| *id).collect();
                // The map has no order, and the order of releases must be the same in every run.
                lost.sort_unstable();
                for id in lost {
                    self.note_refusal(id, Refusal::Lost);
                    self.end(id, now);
                }
                let slot = self.members[number].endpoint.slot;
                self.forget(slot);
            }
            PoolChange::Replicas(replicas) => self.resize(replicas, now),
        }
        self.list_candidates();
        // Endpoints that start within no time are ready now.
        self.wake(now);
        self.dispatch_all(now);
    }

    /// Gives the first group this many endpoints.
    fn resize(&mut self, replicas: usize, now: u64) {
        let present = self.own_members();
        for _ in present.len()..replicas {
            self.add_member(0, now, self.settings.start_time);
        }
        for &number in present.iter().skip(replicas) {
            self.members[number].is_draining = true;
            // An engine without requests goes at once.
            self.with_engine(number, now, |_, _| {});
        }
    }

    /// The members of the first group that are there or start, the oldest first.
    pub(super) fn own_members(&self) -> Vec<usize> {
        let own = |member: &Member| member.group == 0 && member.removed_at.is_none() && !member.is_draining;
        (0..self.members.len()).filter(|number| own(&self.members[*number])).collect()
    }

    pub(super) fn forget(&mut self, slot: Slot) {
        self.block_events.retain(|(_, of, _)| *of != slot);
        self.forget_in_pickers(slot);
        self.slots.free(slot);
    }
}
