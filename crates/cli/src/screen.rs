//! A terminal whose whole screen is redrawn, and its keys. It must not know what is drawn.

use std::io::{self, Stdout, Write};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};
use rustix::event::{PollFd, PollFlags, Timespec};

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Quit,
    Left,
    Right,
    Process,
}

/// The screen, which is as it was before once this is dropped.
pub(crate) struct Screen {
    out: Stdout,
    colours: ColorChoice,
}

impl Screen {
    pub(crate) fn open() -> io::Result<Self> {
        enable_raw_mode()?;
        let out = io::stdout();
        let colours = AutoStream::choice(&out);
        let mut screen = Self { out, colours };
        execute!(screen.out, EnterAlternateScreen, DisableLineWrap, Hide)?;
        Ok(screen)
    }

    /// Replaces what is shown.
    pub(crate) fn draw(&mut self, text: &str) -> io::Result<()> {
        queue!(self.out, MoveTo(0, 0))?;
        for (n, line) in text.lines().enumerate() {
            if n > 0 {
                self.out.write_all(b"\r\n")?;
            }
            let mut painted = AutoStream::new(Vec::new(), self.colours);
            painted.write_all(line.as_bytes())?;
            self.out.write_all(&painted.into_inner())?;
            queue!(self.out, Clear(ClearType::UntilNewLine))?;
        }
        queue!(self.out, Clear(ClearType::FromCursorDown))?;
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no tidying up.
        let _ = execute!(self.out, Show, EnableLineWrap, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// How many lines fit.
pub(crate) fn height() -> usize {
    const USUAL: usize = 24;
    size().map_or(USUAL, |(_, height)| height.into())
}

/// Waits for this long, less if a key that means something is pressed. A terminal that is gone
/// counts as the wish to end: crossterm would read from it for ever.
pub(crate) fn key_within(duration: Duration) -> Option<Key> {
    let out = io::stdout();
    let mut terminal = [PollFd::new(&out, PollFlags::IN)];
    let time = Timespec::try_from(duration).ok();
    // What fails is interrupted: by the end of a child, or by a change of the terminal's size.
    let ready = rustix::event::poll(&mut terminal, time.as_ref()).unwrap_or(0);
    if terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Some(Key::Quit);
    }
    if ready == 0 || !event::poll(Duration::ZERO).ok()? {
        return None;
    }
    let Event::Key(key) = event::read().ok()? else { return None };
    if key.kind != KeyEventKind::Press {
        return None;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('c') if is_control => Some(Key::Quit),
        KeyCode::Char('p') => Some(Key::Process),
        KeyCode::Left => Some(Key::Left),
        KeyCode::Right => Some(Key::Right),
        _ => None,
    }
}
