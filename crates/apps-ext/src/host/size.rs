//! The size of a frame, which follows the size that its View reports.

use std::time::Duration;

use marquetry_protocol::types::JsonObject;
use serde::Serialize;
use serde_json::Value;

use crate::types::{ContainerDimensions, Extent};

/// The size that a host gives to a View, in CSS pixels. If an axis is `None`, its size stays
/// unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Size {
    /// The width.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<f64>,
    /// The height.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<f64>,
}

/// Follows the size of a View's content on the axes that the View chooses.
#[derive(Clone, Debug, Default)]
pub(super) struct SizeFollower {
    width: Axis,
    height: Axis,
}

/// Largest shrinkage that counts as an echo. A View whose content fills its frame reports a pixel
/// less each time, because of borders.
const ECHO: f64 = 4.0;
/// Number of growths in a row after which the View is tried: its content may grow because its frame
/// does (`min-height: 100vh` and a margin), which would have no end.
const GROWTHS: u32 = 5;
/// Pixels by which the frame shrinks while a View is tried; more than [`ECHO`].
const TRIED_SHRINKAGE: f64 = 16.0;
/// Time in which the content of a View that follows its frame has to follow the tried size.
const TRIAL: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
struct Axis {
    applied: Option<f64>,
    /// Growths in a row, and the size before them.
    growths: u32,
    before: f64,
    /// Growths in a row until the View is tried.
    allowed: u32,
    trial: Option<Trial>,
    /// Pixels by which the content is larger than any frame, once that is known.
    excess: f64,
    /// Whether the next report tells the excess at the present size.
    measures_excess: bool,
}

/// A frame that was made smaller, to see whether the content follows it.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The size that the content had before, which may be larger than a frame may be.
    content: f64,
    /// The size that the frame gets if the content does not follow it.
    wanted: f64,
    until: Duration,
}

impl SizeFollower {
    /// Parses the parameters of `ui/notifications/size-changed`.
    ///
    /// # Errors
    /// Returns an error if both axes are absent, or one is not a number of at least 0.
    pub(super) fn parse(params: &JsonObject) -> Result<Size, &'static str> {
        fn axis(params: &JsonObject, name: &str) -> Result<Option<f64>, &'static str> {
            match params.get(name) {
                None | Some(Value::Null) => Ok(None),
                Some(value) => match value.as_f64() {
                    Some(size) if size.is_finite() && size >= 0.0 => Ok(Some(size)),
                    _ => Err("width and height must be numbers of at least 0"),
                },
            }
        }
        let size = Size { width: axis(params, "width")?, height: axis(params, "height")? };
        if size == Size::default() { Err("there is neither width nor height") } else { Ok(size) }
    }

    /// Returns the new size of the frame, if it changes.
    pub(super) fn follow(
        &mut self,
        now: Duration,
        content: Size,
        room: ContainerDimensions,
        largest: f64,
    ) -> Option<Size> {
        changed(Size {
            width: self.width.follow(now, content.width, room.width, largest),
            height: self.height.follow(now, content.height, room.height, largest),
        })
    }

    /// Returns the time at which [`Self::end_trials`] is due, if any.
    pub(super) fn deadline(&self) -> Option<Duration> {
        [&self.width, &self.height].into_iter().filter_map(|it| Some(it.trial?.until)).min()
    }

    /// Ends the trials whose time is over. Returns the new size of the frame, if it changes.
    pub(super) fn end_trials(&mut self, now: Duration) -> Option<Size> {
        changed(Size { width: self.width.end_trial(now), height: self.height.end_trial(now) })
    }

    /// Forgets the reported sizes after the room for the frame changed.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

fn changed(size: Size) -> Option<Size> {
    (size != Size::default()).then_some(size)
}

impl Default for Axis {
    fn default() -> Self {
        Self {
            applied: None,
            growths: 0,
            before: 0.0,
            allowed: GROWTHS,
            trial: None,
            excess: 0.0,
            measures_excess: false,
        }
    }
}

impl Axis {
    fn follow(
        &mut self,
        now: Duration,
        content: Option<f64>,
        room: Extent,
        largest: f64,
    ) -> Option<f64> {
        let max = match room {
            Extent::Fixed(_) => return None,
            Extent::AtMost(max) => max.min(largest),
            Extent::Unbounded => largest,
        };
        let content = content?;
        let wanted = content.min(max);
        let Some(applied) = self.applied else { return self.apply(wanted) };
        if let Some(trial) = self.trial {
            return self.try_out(trial, applied, content, max);
        }
        let change = wanted - applied;
        if change > 0.0 && change <= self.excess {
            if std::mem::take(&mut self.measures_excess) {
                self.excess = change + ECHO;
            }
            return None;
        }
        if (-ECHO..=0.0).contains(&change) {
            return None;
        }
        if change < 0.0 {
            self.growths = 0;
            return self.apply(wanted);
        }
        if self.growths == 0 {
            self.before = applied;
        }
        self.growths += 1;
        // A View that doubles its size reaches the largest one soon.
        let is_tried = self.growths >= self.allowed || (self.growths > 1 && wanted >= max);
        if !is_tried {
            return self.apply(wanted);
        }
        self.trial = Some(Trial { content, wanted, until: now.saturating_add(TRIAL) });
        self.apply((applied - TRIED_SHRINKAGE).max(0.0))
    }

    /// Takes what a View reports while its frame is smaller than it was.
    fn try_out(&mut self, trial: Trial, tried: f64, content: f64, max: f64) -> Option<f64> {
        if content < trial.content - ECHO {
            // The content follows its frame. It gets the size that it had before it grew.
            self.trial = None;
            self.growths = 0;
            self.excess = (content - tried).max(0.0) + ECHO;
            self.measures_excess = true;
            return self.apply(self.before);
        }
        if content > trial.content {
            return self.trust(content.min(max));
        }
        None
    }

    fn end_trial(&mut self, now: Duration) -> Option<f64> {
        let trial = self.trial.filter(|trial| trial.until <= now)?;
        self.trust(trial.wanted)
    }

    /// Follows a View that grows by itself. A later trial may find that it follows its frame.
    fn trust(&mut self, wanted: f64) -> Option<f64> {
        self.trial = None;
        self.growths = 0;
        self.allowed = self.allowed.saturating_mul(2);
        self.apply(wanted)
    }

    fn apply(&mut self, size: f64) -> Option<f64> {
        self.applied = Some(size);
        Some(size)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn height(height: f64) -> Size {
        Size { width: None, height: Some(height) }
    }

    #[test]
    fn a_flexible_axis_is_followed_and_clamped() {
        let mut follower = SizeFollower::default();
        let room =
            ContainerDimensions { width: Extent::Fixed(400.0), height: Extent::AtMost(600.0) };
        let both = Size { width: Some(300.0), height: Some(500.0) };
        for (content, followed) in [
            (both, Some(height(500.0))),
            (both, None),
            (height(9_000.0), Some(height(600.0))),
            (height(100.0), Some(height(100.0))),
        ] {
            assert_eq!(follower.follow(Duration::ZERO, content, room, 1e4), followed);
        }
        let mut unbounded = SizeFollower::default();
        let room = ContainerDimensions::default();
        assert_eq!(unbounded.follow(Duration::ZERO, height(1e9), room, 1e4), Some(height(1e4)));
    }

    #[test]
    fn a_view_that_shrinks_by_a_pixel_each_time_stands_still() {
        let mut follower = SizeFollower::default();
        let room = ContainerDimensions::default();
        let mut frame = 600.0;
        follower.follow(Duration::ZERO, height(frame), room, 1e4);
        for _ in 0..100 {
            if let Some(size) = follower.follow(Duration::ZERO, height(frame - 1.0), room, 1e4) {
                frame = size.height.unwrap();
            }
        }
        assert_eq!(frame, 600.0);
        assert_eq!(follower.follow(Duration::ZERO, height(595.0), room, 1e4), Some(height(595.0)));
    }

    /// Reports `content_of` the frame after each change of the frame, as a View does, for a minute.
    /// Returns the size of the frame, and the largest that it had.
    fn settled(content_of: impl Fn(f64) -> f64) -> (f64, f64) {
        let mut follower = SizeFollower::default();
        let room = ContainerDimensions { width: Extent::Unbounded, height: Extent::AtMost(5e3) };
        let mut frame = 320.0;
        let mut largest = frame;
        let mut reported = 0.0;
        for step in 0..60 * 60 {
            let now = Duration::from_millis(16 * step);
            let mut size = follower.end_trials(now);
            let content = content_of(frame);
            // The library of the specification reports changes alone.
            if size.is_none() && content != reported {
                reported = content;
                size = follower.follow(now, height(content), room, 1e4);
            }
            if let Some(size) = size {
                frame = size.height.unwrap();
                largest = largest.max(frame);
            }
        }
        (frame, largest)
    }

    #[test]
    fn a_view_whose_content_follows_its_frame_gets_the_size_before_it_grew() {
        for excess in [1.0, 8.0, 20.0, 40.0, 300.0] {
            let (frame, largest) = settled(|frame| frame + excess);
            assert_eq!(frame, 320.0 + excess, "{excess}");
            let most = 320.0 + f64::from(GROWTHS) * excess;
            assert!(largest <= most, "{excess}: {largest}");
        }
        for factor in [1.02, 1.2, 2.0] {
            let (frame, _) = settled(|frame| frame * factor);
            assert_eq!(frame, 320.0 * factor);
        }
        // Two sizes in turn.
        let (frame, _) = settled(|frame| frame + if frame % 2.0 == 0.0 { 21.0 } else { 33.0 });
        assert!(frame < 400.0, "{frame}");
    }

    #[test]
    fn a_view_that_grows_by_itself_is_followed() {
        let mut follower = SizeFollower::default();
        let room = ContainerDimensions::default();
        let mut frame = 0.0;
        let mut smallest_shrinkage = 0.0_f64;
        for line in 1..=200_u32 {
            let now = Duration::from_millis(100) * line;
            let before = frame;
            let ended = follower.end_trials(now);
            let followed = follower.follow(now, height(20.0 * f64::from(line)), room, 1e4);
            frame = followed.or(ended).map_or(frame, |size| size.height.unwrap());
            smallest_shrinkage = smallest_shrinkage.min(frame - before);
        }
        assert_eq!(frame, 4_000.0);
        assert_eq!(smallest_shrinkage, -TRIED_SHRINKAGE, "the user hardly sees a trial");
    }

    #[test]
    fn a_view_that_stops_growing_during_a_trial_gets_its_size() {
        let mut follower = SizeFollower::default();
        let room = ContainerDimensions::default();
        let mut last = None;
        for line in 1..=GROWTHS + 1 {
            last = follower.follow(Duration::ZERO, height(20.0 * f64::from(line)), room, 1e4);
        }
        assert_eq!(last, Some(height(20.0 * f64::from(GROWTHS) - TRIED_SHRINKAGE)));
        assert_eq!(follower.deadline(), Some(TRIAL));
        assert_eq!(follower.end_trials(TRIAL / 2), None);
        let all = height(20.0 * f64::from(GROWTHS + 1));
        assert_eq!(follower.end_trials(TRIAL), Some(all));
        assert_eq!(follower.deadline(), None);
    }

    #[test]
    fn a_view_that_follows_its_frame_may_still_change() {
        let mut follower = SizeFollower::default();
        let room = ContainerDimensions::default();
        let mut frame = 100.0;
        for _ in 0..20 {
            if let Some(size) = follower.follow(Duration::ZERO, height(frame + 20.0), room, 1e4) {
                frame = size.height.unwrap();
            }
        }
        assert_eq!(frame, 120.0);
        for size in [900.0, 60.0] {
            let followed = follower.follow(Duration::ZERO, height(size), room, 1e4);
            assert_eq!(followed, Some(height(size)));
            assert_eq!(follower.follow(Duration::ZERO, height(size + 20.0), room, 1e4), None);
        }
    }

    #[test]
    fn sizes_are_numbers() {
        fn parse(value: Value) -> Result<Size, &'static str> {
            SizeFollower::parse(value.as_object().unwrap())
        }
        assert_eq!(parse(json!({ "height": 7 })), Ok(height(7.0)));
        assert!(parse(json!({ "height": 7, "width": null })).is_ok());
        for wrong in [json!({}), json!({ "height": "7" }), json!({ "width": -1, "height": 7 })] {
            assert!(parse(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
