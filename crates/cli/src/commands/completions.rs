//! `freehold completions`: completions for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{Exit, Failure};
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  freehold completions bash > ~/.local/share/bash-completion/completions/freehold
  freehold completions zsh > ~/.zfunc/_freehold";

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn execute(self) -> Result<Exit, Failure> {
        let mut command = Cli::command();
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        ui::print_raw(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Success)
    }
}
