//! The host context of a View, of which only changes are sent.

use marquetry_protocol::types::JsonObject;
use serde_json::{Value, json};

use super::size::Size;
use crate::types::{AppCapabilities, ContainerDimensions, DisplayMode, HostContext};

/// The host context of a View, and the part of it that was already sent.
#[derive(Debug)]
pub(super) struct ViewContext {
    current: HostContext,
    sent: JsonObject,
    /// The size that the frame got from the View's reports.
    frame: Size,
}

/// A member that is sent only in the answer to `ui/initialize`.
const INITIAL_ONLY: &str = "toolInfo";

/// A member of our own for the answer to `ui/initialize`: the frame's size on the axes that the
/// View chooses. The specification's `containerDimensions` has no member for it; a fixed size there
/// would forbid the View to change it. It is never sent as a notification: a View that reports its
/// size on every change of the context would report without end.
const FRAME_SIZE: &str = "marquetry/frameSize";

impl ViewContext {
    pub(super) fn new(context: HostContext) -> Self {
        Self { current: context, sent: JsonObject::new(), frame: Size::default() }
    }

    /// Returns the context for the answer to `ui/initialize`. It offers only modes that the View
    /// supports.
    pub(super) fn initial(&mut self, app: &AppCapabilities) -> HostContext {
        let mut initial = self.offered(app);
        if self.frame != Size::default() {
            initial.extra.insert(FRAME_SIZE.to_owned(), json!(self.frame));
        }
        self.sent = members(&initial);
        initial
    }

    /// Replaces the context. Keeps the present mode if the View does not support the new one, and
    /// the present call if the new context has none.
    pub(super) fn replace(&mut self, mut context: HostContext, app: &AppCapabilities) {
        context.tool_info = context.tool_info.or_else(|| self.current.tool_info.take());
        let mode = context.display_mode.unwrap_or_default();
        if mode != self.mode() && !app.allows(mode) {
            context.display_mode = self.current.display_mode;
            context.container_dimensions = self.current.container_dimensions;
        }
        self.current = context;
    }

    /// Takes the members that changed since the last message, for
    /// `ui/notifications/host-context-changed`.
    pub(super) fn take_changes(&mut self, app: &AppCapabilities) -> Option<JsonObject> {
        let mut changes = members(&self.offered(app));
        changes.shift_remove(INITIAL_ONLY);
        changes.retain(|name, value| self.sent.get(name) != Some(&*value));
        for (name, value) in &changes {
            self.sent.insert(name.clone(), value.clone());
        }
        (!changes.is_empty()).then_some(changes)
    }

    /// Returns the mode in which the View is shown.
    pub(super) fn mode(&self) -> DisplayMode {
        self.current.display_mode.unwrap_or_default()
    }

    /// Returns the modes that both the host and the View support.
    pub(super) fn modes(&self, app: &AppCapabilities) -> Vec<DisplayMode> {
        let modes = self.current.available_display_modes.clone().unwrap_or_default();
        modes.into_iter().filter(|it| app.allows(*it)).collect()
    }

    /// Changes the mode if both the host and the View support it, and returns whether the mode
    /// changed.
    pub(super) fn set_mode(&mut self, mode: DisplayMode, app: &AppCapabilities) -> bool {
        let is_new = mode != self.mode() && self.modes(app).contains(&mode);
        if is_new {
            self.current.display_mode = Some(mode);
        }
        is_new
    }

    /// Records the size that the frame got.
    pub(super) fn resize_frame(&mut self, size: Size) {
        self.frame.width = size.width.or(self.frame.width);
        self.frame.height = size.height.or(self.frame.height);
    }

    /// Forgets the size of the frame after the room for it changed.
    pub(super) fn reset_frame(&mut self) {
        self.frame = Size::default();
    }

    pub(super) fn dimensions(&self) -> ContainerDimensions {
        self.current.container_dimensions.unwrap_or_default()
    }

    fn offered(&self, app: &AppCapabilities) -> HostContext {
        let mut offered = self.current.clone();
        if offered.available_display_modes.is_some() {
            offered.available_display_modes = Some(self.modes(app));
        }
        offered
    }
}

fn members(context: &HostContext) -> JsonObject {
    match serde_json::to_value(context) {
        Ok(Value::Object(members)) => members,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(value: Value) -> HostContext {
        serde_json::from_value(value).unwrap()
    }

    fn any_mode() -> AppCapabilities {
        AppCapabilities::default()
    }

    #[test]
    fn only_changed_members_are_sent() {
        let first = json!({ "theme": "light", "locale": "en", "toolInfo": { "tool": { "name": "t", "inputSchema": {} } } });
        let mut view_context = ViewContext::new(context(first.clone()));
        assert_eq!(serde_json::to_value(view_context.initial(&any_mode())).unwrap(), first);
        assert_eq!(view_context.take_changes(&any_mode()), None);
        view_context.replace(context(json!({ "theme": "dark", "locale": "en" })), &any_mode());
        let changes = view_context.take_changes(&any_mode()).map(Value::Object);
        assert_eq!(changes, Some(json!({ "theme": "dark" })));
        assert_eq!(view_context.take_changes(&any_mode()), None);
        assert!(
            view_context.initial(&any_mode()).tool_info.is_some(),
            "a View that initializes again"
        );
    }

    #[test]
    fn the_size_of_the_frame_is_only_in_the_initial_context() {
        let room = json!({ "containerDimensions": { "width": 500.0, "maxHeight": 600.0 } });
        let mut view_context = ViewContext::new(context(room.clone()));
        assert_eq!(serde_json::to_value(view_context.initial(&any_mode())).unwrap(), room);
        view_context.resize_frame(Size { width: Some(300.0), height: Some(100.0) });
        view_context.resize_frame(Size { width: None, height: Some(200.0) });
        assert_eq!(
            view_context.take_changes(&any_mode()),
            None,
            "a notification could make the View report again"
        );
        let mut want = room.clone();
        want[FRAME_SIZE] = json!({ "width": 300.0, "height": 200.0 });
        assert_eq!(serde_json::to_value(view_context.initial(&any_mode())).unwrap(), want);
        view_context.reset_frame();
        assert_eq!(serde_json::to_value(view_context.initial(&any_mode())).unwrap(), room);
        assert_eq!(view_context.take_changes(&any_mode()), None);
    }

    #[test]
    fn a_mode_that_the_view_does_not_support_is_never_set() {
        let modes = json!({ "availableDisplayModes": ["inline", "fullscreen", "pip"] });
        let members = json!({ "availableDisplayModes": ["inline", "pip"] });
        let app = AppCapabilities::parse(members.as_object().unwrap());
        let mut view_context = ViewContext::new(context(modes.clone()));
        let offered = view_context.initial(&app).available_display_modes;
        assert_eq!(offered, Some(vec![DisplayMode::Inline, DisplayMode::Pip]));
        assert!(!view_context.set_mode(DisplayMode::Fullscreen, &app));
        assert!(view_context.set_mode(DisplayMode::Pip, &app));
        assert!(!view_context.set_mode(DisplayMode::Pip, &app));
        let mut wrong = modes;
        wrong["displayMode"] = "fullscreen".into();
        view_context.replace(context(wrong), &app);
        assert_eq!(view_context.mode(), DisplayMode::Pip);
        assert!(!ViewContext::new(HostContext::default()).set_mode(DisplayMode::Pip, &app));
    }
}
