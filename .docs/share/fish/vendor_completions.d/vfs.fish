complete -c vfs -a '(vfs completion fish -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
