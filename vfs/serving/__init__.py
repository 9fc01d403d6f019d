"""What a mount and an HTTP server share: the process that serves, its entry, its status, its log.

- `entry`: a folder for each server, in which later commands find it;
- `status`: what a server has done, written into its entry once a second;
- `signals`: holds them back, or handles them otherwise for a while;
- `process`, `child`: a server in another process, seen from the process that starts it, and from itself;
- `failures`, `logs`: lines of the log;
- `gate`: lets requests run alone when memory is short.
"""
