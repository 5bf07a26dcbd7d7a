"""What a call with an agent's key costs beside a plain one, without bases and with one."""
